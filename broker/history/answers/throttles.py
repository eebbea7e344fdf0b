"""Throttles as they are kept with a decision."""

from __future__ import annotations

from collections.abc import Iterable

from broker.engine.analysis.throttle import Throttle


def throttle_in(notes: Iterable[str]) -> Throttle | None:
    """The throttle among the notes of a decision; None without one."""
    for note in notes:
        found = Throttle.read(note)
        if found is not None:
            return found
    return None
