"""The HTTP API of the quality of decisions."""
