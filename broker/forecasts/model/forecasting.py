"""When something starts, forecast from the outcomes of the most similar past cases and of their forecasts. Pure.

Past forecasts are stored with what was known then ("clues": how long the work ahead takes at the rate of the last
hours, how long others waited recently, how long the subject has waited itself, what a roll-out says). A subject is
compared with them; the quantiles of what followed in the nearest ones, weighted by nearness and age, are its forecast.
Cases that have not started yet count as lower bounds. Both edges are then moved by how often each was missed recently,
by kind and horizon, so that intervals stay as wide as they must be when the grid changes.

An edge is moved in the logarithm of the time, not in its level: while a grid fills up, waits grow beyond all that was
seen, and no level of the past is late enough (quantile tracking: Angelopoulos, Candes and Tibshirani, "Conformal PID
Control for Time Series Prediction", 2023, section 2). If 20 upper edges were decided just now and 6 of them missed, a
step of 0.03 makes p90 later by the factor exp(20 * 0.03 * (0.3 - 0.1)) = 1.13.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts
from broker.domain.quantiles import censored_quantiles, effective_number

#: The quantiles that are forecast.
LEVELS = np.array([0.1, 0.5, 0.9])
#: What is known about a subject, in seconds, with the weight of a difference by a factor of e.
CLUES = {"ahead_s": 1.0, "backlog_s": 1.0, "recent_s": 0.5, "age_s": 0.5, "rollout_s": 1.0}
AHEAD, BACKLOG, RECENT, AGE, ROLLOUT = range(len(CLUES))
#: Distance for a clue that is known for only one of two subjects, for different cells, and for different situations.
_UNKNOWN, _OTHER_CELL, _OTHER_SITUATION = 3.0, 1.0, 1.0
#: Ends of the horizons by which forecasts are grouped: less than 10 min, 1 h, 6 h, and later.
HORIZONS_S = (600.0, 3600.0, 21_600.0)
HORIZON_NAMES = ("< 10 min", "< 1 h", "< 6 h", "later")
#: The intended share of misses at each edge, and the age in seconds at which a miss counts 1 / e.
_MISSED, _MISSES_FADE_S = float(LEVELS[0]), 259_200.0
#: If more edges than this were decided recently, together they move an edge only as far as this many would.
_MOST_DECIDED = 300.0
#: Few subjects of these kinds start, so their edges would hardly move: the n-th moves them by at least 1 / (n + this).
_FIRST_STARTS = {"task_kind": 20}
#: Subjects compared at once, which bounds the memory.
_AT_ONCE = 64


@dataclass(frozen=True)
class Settings:
    """Settings of forecasts.

    Attributes:
        half_life_s: age at which a past case counts half.
        cases: the nearest past cases that are used; with fewer there is no forecast.
        horizon_s: later starts are not forecast.
        step: how much the logarithm of an edge moves at each miss; 0: edges stay where the past cases put them.
    """

    half_life_s: float = 345_600.0
    cases: int = 100
    horizon_s: float = 172_800.0
    step: float = 0.03


TextT = TypeVar("TextT")
CluesT = TypeVar("CluesT")


@dataclass(frozen=True)
class SubjectClues(Generic[TextT, CluesT]):
    """The input of a forecast, for one subject or as columns for many.

    Attributes:
        kind: ``queue``, ``task`` or ``task_kind``.
        cell: the queue, or the kind of the task.
        situation: of the subject, such as whether jobs wait at the queue.
        clues: in seconds, see :data:`CLUES`.
    """

    kind: TextT
    cell: TextT
    situation: TextT
    clues: CluesT


@dataclass(frozen=True)
class Subjects(SubjectClues[Texts, Floats]):
    """Subjects of forecasts (length n); ``clues`` is (n, clues) in the order of :data:`CLUES`, NaN where unknown."""

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Past(Subjects):
    """Past forecasts (length n), in order.

    Attributes:
        made_s: when each was made.
        waited_s: time to the start, or the time without a start so far.
        is_known: whether the subject has started.
        quantiles_s: (n, 3) the quantiles of the forecast; NaN where there were none, infinite beyond the horizon.
    """

    made_s: Floats
    waited_s: Floats
    is_known: Bools
    quantiles_s: Floats

    def part(self, rows: Bools | Ints) -> Past:
        """The forecasts in some rows."""
        return Past(**{column.name: getattr(self, column.name)[rows] for column in fields(Past)})


@dataclass(frozen=True)
class Forecasts:
    """Forecasts for the subjects (length n).

    Attributes:
        quantiles_s: (n, 3) seconds to the start; NaN where unknown, infinite beyond the horizon.
        n: (n,) past cases of the kind that have started.
        usual_s: (n,) median of the waits in the cell, whatever the clues; NaN without any.
    """

    quantiles_s: Floats
    n: Ints
    usual_s: Floats


def horizon_of(middle_s: Floats) -> Ints:
    """The horizon of each value, as an index into :data:`HORIZON_NAMES`."""
    return np.searchsorted(np.array(HORIZONS_S), middle_s, side="right")


def make_forecasts(subjects: Subjects, past: Past, now_s: float, settings: Settings) -> Forecasts:
    """Forecast the start of each subject at ``now_s`` from past forecasts."""
    count = len(subjects)
    quantiles, n, usual = np.full((count, 3), np.nan), np.zeros(count, dtype=np.int64), np.full(count, np.nan)
    for kind in np.unique(subjects.kind):
        own, before = np.flatnonzero(subjects.kind == kind), past.part(past.kind == kind)
        n[own] = int(before.is_known.sum())
        usual[own] = _usual(subjects.cell[own], before)
        if n[own][0] < settings.cases:
            continue
        shifts = _shifts(before, now_s, settings.step, _FIRST_STARTS.get(str(kind)))
        for first in range(0, len(own), _AT_ONCE):
            rows = own[first : first + _AT_ONCE]
            quantiles[rows] = _nearest(_part(subjects, rows), before, now_s, settings, shifts)
    quantiles[quantiles > settings.horizon_s] = np.inf
    return Forecasts(quantiles, n, usual)


def _part(subjects: Subjects, rows: Ints) -> Subjects:
    return Subjects(subjects.kind[rows], subjects.cell[rows], subjects.situation[rows], subjects.clues[rows])


def _usual(cells: Texts, past: Past) -> Floats:
    medians = np.full(len(cells), np.nan)
    for cell in np.unique(cells):
        waits = past.waited_s[(past.cell == cell) & past.is_known]
        if len(waits):
            medians[cells == cell] = np.median(waits)
    return medians


def _nearest(subjects: Subjects, past: Past, now_s: float, settings: Settings, shifts: Floats) -> Floats:
    """(n, 3) seconds: quantiles of what followed in the nearest past cases, with shifted edges."""
    distance = _distances(subjects, past)
    count = min(settings.cases, len(past))
    places = np.argpartition(distance, count - 1, axis=1)[:, :count]
    by_age = np.exp2(-(now_s - past.made_s) / settings.half_life_s)
    waited = np.log1p(past.waited_s)
    quantiles = np.empty((len(subjects), 3))
    for row, near in enumerate(places):
        far = distance[row, near]
        weights = by_age[near] * np.maximum(1e-3, 1.0 - (far / (far.max() + 1e-9)) ** 2)
        levels = _levels(effective_number(weights))
        low, middle, high = censored_quantiles(waited[near], past.is_known[near], weights, levels)
        earlier, later = shifts[int(horizon_of(np.expm1(middle)))]
        quantiles[row] = min(max(low - earlier, 0.0), middle), middle, max(high + later, middle)
    return np.asarray(np.expm1(quantiles))


def _distances(subjects: Subjects, past: Past) -> Floats:
    """(n, past) the distance of each subject from each past case."""
    distances: Floats = _OTHER_CELL * (subjects.cell[:, None] != past.cell[None, :]).astype(np.float64)
    distances += _OTHER_SITUATION * (subjects.situation[:, None] != past.situation[None, :])
    for place, weight in enumerate(CLUES.values()):
        one, other = np.log1p(subjects.clues[:, place])[:, None], np.log1p(past.clues[:, place])[None, :]
        unknown = np.isnan(one).astype(np.int64) + np.isnan(other)
        between = np.where(unknown == 0, weight * np.abs(one - other), np.where(unknown == 1, _UNKNOWN, 0.0))
        distances += between
    return distances


def _shifts(past: Past, now_s: float, step: float, first: int | None) -> Floats:
    """(horizons, 2) how far the logarithm of the lower edge moves earlier, and that of the upper edge later.

    An edge is decided at the start, or once it has passed without a start. An edge beyond the horizon is never missed
    and says nothing.
    """
    shifts = np.zeros((len(HORIZON_NAMES), 2))
    horizon = horizon_of(past.quantiles_s[:, 1])
    for side, place in enumerate((0, 2)):
        edge = past.quantiles_s[:, place]
        is_over = past.waited_s > edge
        decided = np.flatnonzero(np.isfinite(edge) & (past.is_known | is_over))
        missed = is_over if place else past.waited_s < edge
        when = past.made_s + np.minimum(past.waited_s, edge)
        for group in np.unique(horizon[decided]):
            rows = decided[horizon[decided] == group]
            rows = rows[np.argsort(when[rows], kind="stable")]
            shifts[group, side] = _shift(missed[rows], when[rows], now_s, step, first)
    return shifts


def _shift(missed: Bools, when_s: Floats, now_s: float, step: float, first: int | None) -> float:
    """How far an edge moves outwards after it was missed or not (length n, in order)."""
    steps = np.full(len(missed), step)
    if first is not None and step > 0:
        steps = np.maximum(step, 1.0 / (np.arange(1, len(missed) + 1) + first))
    weights = np.exp(-(now_s - when_s) / _MISSES_FADE_S)
    bound = min(1.0, _MOST_DECIDED / max(float(weights.sum()), 1e-9))
    return bound * float((weights * steps * (missed - _MISSED)).sum())


def _levels(n: float) -> Floats:
    """(3,) the levels of the quantiles; the edges are those of n + 1 values, the last of which is still to come."""
    part = (1.0 - _MISSED) * (n + 1.0) / max(n, 1.0)
    return np.array([max(0.0, 1.0 - part), LEVELS[1], min(1.0 - 1e-9, part)])
