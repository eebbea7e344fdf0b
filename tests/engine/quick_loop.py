"""Stands for the module of a compiled loop: it is loaded at once."""

from __future__ import annotations


def call_first() -> None:
    """Reads nothing."""
