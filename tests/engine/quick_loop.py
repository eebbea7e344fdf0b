"""A stand-in for the module of a compiled loop; it loads at once."""

from __future__ import annotations


def call_first() -> None:
    """Do nothing."""
