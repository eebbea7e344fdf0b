"""Tuning that operators change while the broker runs: gdpconfig values, canaries, and the history of changes."""
