"""Implementations of steps that installed distributions offer, in the entry point group ``broker.steps``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint

from broker.resources import entry_points
from broker.rules.contract import Step

GROUP = "broker.steps"


def offered_steps() -> dict[str, EntryPoint]:
    """The entry points of the steps, by the name under which a profile chooses them; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def implementations(name: str) -> Iterator[Step]:
    """The offered implementations of the step with this name; those that cannot be loaded are left out."""
    return (step for step in _loaded() if step.name == name)


@cache
def _loaded() -> tuple[Step, ...]:
    steps = []
    for point in offered_steps().values():
        try:
            step = point.load()()
        except Exception:  # noqa: S112 - whatever an outside module raises; a profile that names it stops the start
            continue
        if isinstance(step, Step):
            steps.append(step)
    return tuple(steps)
