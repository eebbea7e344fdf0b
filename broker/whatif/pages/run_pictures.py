"""Pictures of the results of a run: the curves of a sweep, and the jobs of queues before and after a change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from broker.web.formats import in_path
from broker.web.pictures.bars import element, nice_limit, part, row_of_bars, rows_of_bars
from broker.web.pictures.series import Line, curve


@dataclass(frozen=True)
class Slope:
    """A queue with its jobs before and after."""

    name: str
    before: float
    after: float


def slopes(title: str, lines: Sequence[Slope]) -> Markup:
    """One row for each queue: a line from a ring (before) to a dot (after), in colours of gain and loss."""
    largest = nice_limit(max((max(line.before, line.after) for line in lines), default=0.0))
    rows = []
    for line in lines:
        class_ = "good" if line.after > line.before else "lost" if line.after < line.before else "same"
        before, after = _inside(line.before, largest), _inside(line.after, largest)
        shapes = [
            element(
                "line",
                [element("title", _slope_text(line))],
                x1=before,
                x2=after,
                y1="50%",
                y2="50%",
                class_=f"line {class_}",
            ),
            element("circle", cx=before, cy="50%", r="0.25rem", class_="before"),
            element("circle", cx=after, cy="50%", r="0.3rem", class_=class_),
        ]
        address = f"/queues/{in_path(line.name.split('/')[0])}"
        rows.append(row_of_bars(line.name, address, shapes, f"{line.before:,.0f} → {line.after:,.0f}"))
    return rows_of_bars(f"{title}: " + "; ".join(_slope_text(line) for line in lines), rows)


def _inside(value: float, largest: float) -> str:
    """A position in the picture that leaves room for a dot at both ends."""
    return part(0.02 * largest + 0.96 * value, largest)


def _slope_text(line: Slope) -> str:
    return f"{line.name} {line.before:,.0f} to {line.after:,.0f} jobs"


MOST_QUEUES = 14


@dataclass(frozen=True)
class Point:
    """The effects of one value of a sweep, over all brokerages.

    Attributes:
        value: of the key.
        moved: jobs that would be placed elsewhere.
        candidates: mean number in a decision.
        losing: tasks that would lose their last queue.
        changed: decisions that would be different.
        decisions: number of decisions that were made again.
    """

    value: float
    moved: int
    candidates: float
    losing: int
    changed: int
    decisions: int


def points_of(result: Mapping[str, Any] | None) -> list[Point]:
    """The points of a sweep of one key whose values are numbers, by value; empty for any other result."""
    points = []
    for point in (result or {}).get("points", ()):
        (value,) = point["set"].values() if len(point["set"]) == 1 else (None,)
        if isinstance(value, int | float) and not isinstance(value, bool):
            points.append(_point(float(value), point["totals"]))
    return sorted(points, key=lambda one: one.value)


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
    """The name and curve of each effect; empty without points."""
    effects = (
        ("jobs that would be placed elsewhere", "good", [(one.value, float(one.moved)) for one in points]),
        ("queues left for a decision, in the mean", "wait", [(one.value, one.candidates) for one in points]),
        ("tasks that would have no queue any more", "lost", [(one.value, float(one.losing)) for one in points]),
    )
    return [
        (name, curve(f"{key}: {name}; {_values_text(values)}", unit, [Line(name, class_, values)], in_force))
        for name, class_, values in effects
        if values
    ]


def _values_text(points: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{y:.4g} at {x:g}" for x, y in points)


def before_and_after(result: Mapping[str, Any] | None) -> Markup | None:
    """The jobs of the queues that change most; None for a result that compares no jobs."""
    before: defaultdict[str, int] = defaultdict(int)
    after: defaultdict[str, int] = defaultdict(int)
    for total in (result or {}).get("totals", ()):
        for name, counts in total["queues"].items():
            before[name] += counts["jobs_before"]
            after[name] += counts["jobs_after"]
    ranked = sorted(before, key=lambda name: (-abs(after[name] - before[name]), -before[name], name))[:MOST_QUEUES]
    lines = [Slope(name, before[name], after[name]) for name in ranked]
    return slopes("Jobs before and after", lines) if lines else None
