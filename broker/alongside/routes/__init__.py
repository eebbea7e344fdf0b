"""The HTTP API of shadow mode and its gate."""
