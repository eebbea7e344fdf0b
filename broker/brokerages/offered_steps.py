"""Implementations of steps that installed distributions offer, in the entry point group ``broker.steps``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint

from broker.errors import BrokerError
from broker.resources import entry_points
from broker.rules.contract import Step

GROUP = "broker.steps"

#: What this distribution offers itself.
OWN = "flow"


def offered_steps() -> dict[str, EntryPoint]:
    """The entry points of the steps, by the name under which a profile chooses them; nothing is imported.

    Raises:
        BrokerError: two distributions offer a step of the same name.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in points:
            where = f"{points[point.name].value} and {point.value}, entry points of {GROUP}"
            raise BrokerError(f"two distributions offer the step {point.name}", where, "remove one of them")
        points[point.name] = point
    return points


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
