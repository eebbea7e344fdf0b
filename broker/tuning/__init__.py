"""Tuning that operators change while the broker runs: gdpconfig values, canaries, what was changed."""
