"""The HTTP API of gdpconfig values and canaries."""
