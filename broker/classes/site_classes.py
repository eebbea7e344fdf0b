"""Classes of queues by how long users' jobs wait there: hi, mid and lo. Pure; times in seconds.

The recent waits of merge and test jobs, newer ones weighing more, give an upper limit of the wait; merge jobs that are
waiting for longer than that may only raise it. The limit needs upper points of Student's t distribution, for any number
of degrees of freedom above 0, whole or not. The tail of t beyond ``x`` is half the regularised incomplete beta function
I of v = df / (df + x^2) with the parameters df / 2 and 1/2. That function is computed by its continued fraction; the
point is found by bisecting an interval of ln v, so that very few degrees of freedom, where v underflows, need no
special case.

Source: PanDA analysis brokerage, site class; Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 and
26.7.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from broker.domain.analysis import SITE_HI, SITE_LO, SITE_MID
from broker.domain.arrays import Floats, Ints, Texts
from broker.domain.classification import (
    GRID,
    SITE_METRIC,
    WAIT_METRIC,
    MetricRow,
    QueueAbout,
    QueuedSamples,
    SlotStarts,
    WaitSamples,
    known_or_none,
)

_FRACTION_TERMS = 300
_HALVINGS = 100
_TINY = 1e-300


def upper_point(probability: float, degrees: Floats) -> Floats:
    """(N,): ``x`` such that t with ``degrees`` (N,) degrees of freedom is below ``x`` with ``probability``.

    Relative error below 1e-8 up to 1e7 degrees. Infinite where the point exceeds the range of a float; NaN for degrees
    that are not above 0.

    Raises:
        ValueError: the probability is not between one half and one.
    """
    if not 0.5 < probability < 1.0:
        raise ValueError(f"probability {probability} is not between 0.5 and 1")
    degrees = np.asarray(degrees, dtype=np.float64)
    known = np.isfinite(degrees) & (degrees > 0)
    half = np.where(known, degrees, 1.0) / 2.0
    target = 2.0 * (1.0 - probability)
    low = np.full(half.shape, -1.0)
    while np.any(above := _incomplete_beta(half, low) > target):
        low = np.where(above, 2.0 * low, low)
    high = np.zeros(half.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        above = _incomplete_beta(half, middle) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    with np.errstate(over="ignore"):
        points = np.sqrt(2.0 * half * np.expm1(-(low + high) / 2.0))
    return np.where(known, points, np.nan)


def _incomplete_beta(half: Floats, log_v: Floats) -> Floats:
    """(N,): I_v(half, 1/2) for v = exp(log_v) below 1."""
    v, rest = np.exp(log_v), -np.expm1(log_v)
    log_beta = _each(math.lgamma, half) + math.lgamma(0.5) - _each(math.lgamma, half + 0.5)
    front = np.exp(half * log_v + 0.5 * np.log(rest) - log_beta)
    # each side converges fast only where its argument is small
    direct = v < (half + 1.0) / (half + 2.5)
    fraction = _fraction(np.where(direct, half, 0.5), np.where(direct, 0.5, half), np.where(direct, v, rest))
    return np.where(direct, front * fraction / half, 1.0 - front * fraction / 0.5)


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction of the incomplete beta function, by the method of Lentz."""
    c = np.ones(x.shape)
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    result = d.copy()
    for term in range(1, _FRACTION_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        step = np.ones(x.shape)
        for numerator in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + numerator * d)
            c = _away_from_zero(1.0 + numerator / c)
            step = c * d
            result = result * step
        if np.all(np.abs(step - 1.0) < 1e-15):
            break
    return result


def _away_from_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.ravel().tolist()]).reshape(values.shape)


#: A sample counts half as much after this time.
HALF_LIFE_S = 12 * 3600.0
#: A wait lies below the upper limit with this probability.
CONFIDENCE = 0.95
LONGEST_S = 999_999.0
QUANTILES = (0.333, 0.667)
#: Lower bounds of the limits of class hi and class lo.
LEAST_HI_S, LEAST_LO_S = 3600.0, 10800.0
#: Most merge jobs that may wait for long at a queue of class hi.
LONG_QUEUED_ALLOWED = 3
QUEUED_STATUSES = frozenset({"activated", "sent"})
#: Starts within this latest period are not counted, since not all of them are known yet.
NOT_THE_LAST = timedelta(seconds=300)
#: A starting job still waits only at queues to which jobs are pushed.
PUSHED_STATUS, PUSH_WORKFLOW = "starting", "push"


@dataclass(frozen=True)
class WaitTime:
    """Wait times at a queue; NaN where unknown."""

    n: int
    mean: float
    stdev: float
    med: float
    cl95upp: float
    sum_of_weights: float
    w_mean: float
    w_stdev: float
    w_cl95upp: float
    long_q_n: int = 0
    long_q_mean: float = math.nan

    @property
    def ranked_s(self) -> float:
        """The wait in s by which queues are ranked; NaN when unknown."""
        return float(np.maximum(self.w_cl95upp, self.long_q_mean))

    def row(self, queue: str) -> MetricRow:
        """The row in PanDA's shape."""
        document = {
            name: value if isinstance(value, int) else known_or_none(value) for name, value in vars(self).items()
        }
        return MetricRow(WAIT_METRIC, document, computingsite=queue)


@dataclass(frozen=True)
class SiteClass:
    """The class of a queue, and the slots filled with a job there per hour, over 6 hours and over a day."""

    resource_type: str
    strr_6h: float
    strr_1d: float
    site_class: int

    def row(self, queue: str) -> MetricRow:
        """The row in PanDA's shape."""
        document = {"resource_type": self.resource_type, "strr_6h": self.strr_6h, "strr_1d": self.strr_1d}
        return MetricRow(SITE_METRIC, document | {"class": self.site_class}, computingsite=queue)


@dataclass(frozen=True)
class ClassLimits:
    """Up to ``hi_s`` a wait is of class hi, above ``lo_s`` of class lo."""

    hi_s: float
    lo_s: float


def wait_times(samples: WaitSamples, queued: QueuedSamples, queues: Mapping[str, QueueAbout]) -> dict[str, WaitTime]:
    """The waits by queue name, for queues with samples. Queues that are not on record are dropped."""
    weight = np.exp2(-samples.age_s / HALF_LIFE_S)
    good = (samples.wait_s >= 0) & (samples.age_s >= 0) & (weight > 0)
    of_queue = {name: rows[good[rows]] for name, rows in rows_by_name(samples.queue).items() if name in queues}
    by_queue = {name: (samples.wait_s[rows], weight[rows]) for name, rows in sorted(of_queue.items()) if len(rows)}
    plain = [_moments(wait, np.ones(len(wait))) for wait, _ in by_queue.values()]
    weighted = [_moments(wait, weights) for wait, weights in by_queue.values()]
    plain_limits = _upper_limits(plain, [len(wait) - 1.0 for wait, _ in by_queue.values()])
    weighted_limits = _upper_limits(weighted, [float(weights.sum()) for _, weights in by_queue.values()])
    waits = {}
    for place, (name, (wait, weights)) in enumerate(by_queue.items()):
        waits[name] = WaitTime(
            len(wait),
            *plain[place],
            float(np.median(wait)),
            float(plain_limits[place]),
            float(weights.sum()),
            *weighted[place],
            # a single wait says nothing about the spread
            float(weighted_limits[place]) if len(wait) > 1 else math.nan,
        )
    return _with_long_queued(waits, queued, queues)


def _moments(wait: Floats, weights: Floats) -> tuple[float, float]:
    """Mean and standard deviation of the population."""
    mean = float(np.average(wait, weights=weights))
    return mean, math.sqrt(float(np.average((wait - mean) ** 2, weights=weights)))


def _upper_limits(moments: list[tuple[float, float]], freedom: list[float]) -> Floats:
    """(N,): the limit below which a wait stays with CONFIDENCE; NaN without a degree of freedom."""
    mean, spread = np.array(moments, dtype=np.float64).reshape(-1, 2).T
    points = upper_point(CONFIDENCE, np.array(freedom, dtype=np.float64))
    # without spread the limit is the mean, however far out the point is
    added = np.multiply(points, spread, out=np.where(np.isnan(points), np.nan, 0.0), where=spread > 0)
    return np.minimum(mean + added, LONGEST_S)


def _with_long_queued(
    waits: Mapping[str, WaitTime], queued: QueuedSamples, queues: Mapping[str, QueueAbout]
) -> dict[str, WaitTime]:
    """Waits including merge jobs that wait longer than the mean; without any, their mean is that mean."""
    rows = rows_by_name(queued.queue)
    no_rows = np.zeros(0, dtype=np.int64)
    result = {}
    for name, wait in waits.items():
        pushed = (queues[name].workflow or "").startswith(PUSH_WORKFLOW)
        statuses = QUEUED_STATUSES | {PUSHED_STATUS} if pushed else QUEUED_STATUSES
        of_queue = rows.get(name, no_rows)
        waiting = [row for row in of_queue.tolist() if queued.status[row] in statuses]
        long = [float(queued.queued_s[row]) for row in waiting if queued.queued_s[row] > wait.w_mean]
        mean = sum(long) / len(long) if long else wait.w_mean
        result[name] = replace(wait, long_q_n=len(long), long_q_mean=mean)
    return result


def starts_window(now: datetime, hours: float) -> tuple[datetime, datetime]:
    """The window for counting starts: the last ``hours`` without the last 5 minutes, both ends cut to 10 minutes."""
    return _cut(now - timedelta(hours=hours)), _cut(now - NOT_THE_LAST)


def _cut(moment: datetime) -> datetime:
    return moment - timedelta(minutes=moment.minute % 10, seconds=moment.second, microseconds=moment.microsecond)


def rows_by_name(column: Texts) -> dict[str, Ints]:
    """The rows of each name in a column; NULL rows are dropped."""
    positions: dict[str, list[int]] = {}
    for row, name in enumerate(column.tolist()):
        if name is not None:
            positions.setdefault(name, []).append(row)
    return {name: np.array(rows, dtype=np.int64) for name, rows in positions.items()}


def class_limits(waits: Mapping[str, WaitTime], queues: Mapping[str, QueueAbout]) -> ClassLimits:
    """The limits between classes: quantiles over the queues of the grid, never below fixed times."""
    ranked = [wait.ranked_s for name, wait in waits.items() if queues[name].resource_type == GRID]
    known = [value for value in ranked if not math.isnan(value)]
    low, high = np.quantile(known, QUANTILES).tolist() if known else (0.0, 0.0)
    return ClassLimits(max(low, LEAST_HI_S), max(high, LEAST_LO_S))


def site_classes(
    waits: Mapping[str, WaitTime],
    queues: Mapping[str, QueueAbout],
    limits: ClassLimits,
    starts_6h: SlotStarts,
    starts_1d: SlotStarts,
) -> dict[str, SiteClass]:
    """The class of each queue whose wait is known; other queues have none."""
    return {
        name: SiteClass(
            queues[name].resource_type,
            starts_6h.rate(name),
            starts_1d.rate(name),
            _class_of(wait, limits, starts_1d.rate(name)),
        )
        for name, wait in waits.items()
        if not math.isnan(wait.ranked_s)
    }


def _class_of(wait: WaitTime, limits: ClassLimits, slots_an_hour: float) -> int:
    few_wait = wait.w_cl95upp <= limits.hi_s and wait.long_q_n <= LONG_QUEUED_ALLOWED
    if slots_an_hour > 0 and (wait.ranked_s <= limits.hi_s or few_wait):
        return SITE_HI
    return SITE_LO if wait.ranked_s > limits.lo_s else SITE_MID
