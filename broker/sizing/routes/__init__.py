"""The requests of a task over HTTP."""
