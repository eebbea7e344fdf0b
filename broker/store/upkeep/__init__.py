"""Removing expired rows, and archiving ended jobs."""
