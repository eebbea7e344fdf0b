"""Stands for the module of a compiled loop: it is loaded at once."""


def call_first() -> None:
    """Reads nothing."""
