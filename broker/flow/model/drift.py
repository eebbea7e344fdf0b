"""Whether cycles got worse: figures above their limit, or far above the usual, several times in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

#: Cycles after which the usual value is known, and the weight of each further cycle in it.
KNOWN_AFTER, WEIGHT = 3, 0.1
#: Percentage points by which a figure must exceed the usual value in any case, since a small figure may double.
LEAST_RISE = 10.0
COST, BYTES = "cost", "bytes"


@dataclass(frozen=True)
class DriftLimits:
    """The limits beyond which cycles got worse.

    Attributes:
        percent: limit of the regret, in percent of the cost of the best placement.
        bytes_percent: limit of the bytes moved in vain, in percent of all input.
        rise: multiple of the usual value from which a figure is too high, too.
        cycles: number of consecutive cycles.
        jobs: a cycle with fewer jobs does not count.
    """

    percent: float
    bytes_percent: float
    rise: float
    cycles: int
    jobs: int


@dataclass(frozen=True)
class Point:
    """Figures of one cycle.

    Attributes:
        decided_at: its instant.
        jobs: jobs that it had to place.
        figures: figures in percent, by :data:`COST` and :data:`BYTES`.
    """

    decided_at: datetime
    jobs: int
    figures: dict[str, float]


@dataclass(frozen=True)
class Drift:
    """A figure that got worse and stays worse.

    Attributes:
        name: name of the figure.
        percent: value of the newest cycle; above ``limit_percent`` it is too high.
        usual_percent: usual value before; NaN if unknown.
        first: instant of the first cycle that was too high.
        count: number of such cycles.
    """

    name: str
    percent: float
    limit_percent: float
    usual_percent: float
    first: datetime
    count: int


@dataclass
class _State:
    """The history of one figure."""

    usual: float = math.nan
    seen: int = 0
    high: list[datetime] = field(default_factory=list)
    low: int = 0
    raised: bool = False
    value: float = math.nan


def drifts(points: Sequence[Point], limits: DriftLimits) -> tuple[Drift, ...]:
    """The figures of a brokerage that are too high at the end of its cycles, which are given oldest first.

    A figure is too high once ``limits.cycles`` consecutive cycles were, until as many were well below: below the limit,
    and closer to the usual value than to the limit. Cycles in between change nothing. The usual value is learned from
    cycles that are not too high.
    """
    result = []
    for figure, fixed in ((COST, limits.percent), (BYTES, limits.bytes_percent)):
        state = _State()
        for point in points:
            if point.jobs >= limits.jobs and figure in point.figures:
                _step(state, point.figures[figure], point.decided_at, fixed, limits)
        if state.raised:
            limit = _limit(state, fixed, limits.rise)
            result.append(Drift(figure, state.value, limit, state.usual, state.high[0], len(state.high)))
    return tuple(result)


def _limit(state: _State, fixed: float, rise: float) -> float:
    if state.seen < KNOWN_AFTER:
        return fixed
    return min(fixed, max(rise * state.usual, state.usual + LEAST_RISE))


def _step(state: _State, value: float, at: datetime, fixed: float, limits: DriftLimits) -> None:
    limit = _limit(state, fixed, limits.rise)
    state.value = value
    if value > limit:
        state.high.append(at)
        state.low = 0
        state.raised = state.raised or len(state.high) >= limits.cycles
        return
    well_below = limit if state.seen < KNOWN_AFTER else (limit + state.usual) / 2.0
    if state.raised:
        state.low = state.low + 1 if value <= well_below else 0
        if state.low < limits.cycles:
            return
        state.raised, state.low = False, 0
    state.high.clear()
    weight = max(WEIGHT, 1.0 / (state.seen + 1))
    state.usual = value if state.seen == 0 else state.usual + weight * (value - state.usual)
    state.seen += 1
