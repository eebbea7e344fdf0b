"""What installed distributions offer, looked up once per process: each look reads the files of all distributions."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def entry_points(group: str) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of a group, in the order of the distributions; nothing of them is imported."""
    return tuple(metadata.entry_points(group=group))
