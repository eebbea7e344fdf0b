"""Throttles as they are kept with a decision."""

from __future__ import annotations

from collections.abc import Iterable

from broker.decisions.answers.parts import ThrottleState
from broker.engine.analysis.throttle import Throttle


def throttle_in(notes: Iterable[str]) -> ThrottleState | None:
    """The throttle among the notes of a decision; None without one."""
    for note in notes:
        found = Throttle.read(note)
        if found is not None:
            return throttle_state(found)
    return None


def throttle_state(found: Throttle) -> ThrottleState:
    """A throttle as a part of an answer."""
    return ThrottleState(condition=found.condition, figure=found.figure, cap=found.cap, unit=found.unit, key=found.key)
