"""The HTTP API of gdpconfig values, canaries, and what operators set."""
