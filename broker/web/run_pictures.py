"""Pictures of what came of a run: the curve of a sweep, and jobs of queues before and after a change. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from broker.web.pictures.series import Line, curve
from broker.web.pictures.slopes import Slope, slopes

MOST_QUEUES = 14


@dataclass(frozen=True)
class Point:
    """What one value of a sweep does, over all brokerages.

    Attributes:
        value: of the key.
        moved: jobs that would be placed elsewhere.
        candidates: in the mean of a decision.
        losing: tasks that would have no queue any more.
        changed: decisions that would be different.
        decisions: that were made again.
    """

    value: float
    moved: int
    candidates: float
    losing: int
    changed: int
    decisions: int


def points_of(result: Mapping[str, Any] | None) -> list[Point]:
    """The points of a sweep of one key whose values are numbers, by value; none of any other result."""
    found = []
    for point in (result or {}).get("points", ()):
        (value,) = point["set"].values() if len(point["set"]) == 1 else (None,)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(_point(float(value), point["totals"]))
    return sorted(found, key=lambda one: one.value)


def _point(value: float, totals: Sequence[Mapping[str, Any]]) -> Point:
    decisions = sum(one["decisions"] for one in totals)
    candidates = sum(one["candidates"]["after"]["mean"] * one["decisions"] for one in totals)
    return Point(
        value,
        sum(one["jobs"]["moved"] for one in totals),
        candidates / max(1, decisions),
        sum(one["tasks_losing_last_queue"] for one in totals),
        sum(one["changed"] for one in totals),
        decisions,
    )


def curves(key: str, unit: str, points: Sequence[Point], in_force: float | None) -> list[tuple[str, Markup]]:
    """A curve for each effect, with what it is called; none without points."""
    effects = (
        ("jobs that would be placed elsewhere", "good", [(one.value, float(one.moved)) for one in points]),
        ("queues left for a decision, in the mean", "wait", [(one.value, one.candidates) for one in points]),
        ("tasks that would have no queue any more", "lost", [(one.value, float(one.losing)) for one in points]),
    )
    return [
        (name, curve(f"{key}: {name}; {_said(found)}", unit, [Line(name, class_, found)], in_force))
        for name, class_, found in effects
        if found
    ]


def _said(points: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{y:.4g} at {x:g}" for x, y in points)


def before_and_after(result: Mapping[str, Any] | None) -> Markup | None:
    """The jobs of the queues for which most becomes different; None of a result that compares none."""
    before: defaultdict[str, int] = defaultdict(int)
    after: defaultdict[str, int] = defaultdict(int)
    for total in (result or {}).get("totals", ()):
        for name, counts in total["queues"].items():
            before[name] += counts["jobs_before"]
            after[name] += counts["jobs_after"]
    ranked = sorted(before, key=lambda name: (-abs(after[name] - before[name]), -before[name], name))[:MOST_QUEUES]
    lines = [Slope(name, before[name], after[name]) for name in ranked]
    return slopes("Jobs before and after", lines) if lines else None
