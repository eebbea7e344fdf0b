"""Quantiles of what jobs have used, with and without killed jobs, and of waits that have not all ended. Pure.

Jobs that were killed for their memory are lower bounds of what they need: quantiles of finished jobs alone are too low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats

#: Of tasks of a kind so many must have a known value; what is asked for is enough for this part of them.
KIND_TASKS, KIND_PART = 5, 0.9
#: A quantile is known where so many jobs lie above it.
_ABOVE = 2


def enough_of_kind(asks: Sequence[float]) -> float:
    """What is enough for KIND_PART of the tasks of a kind, of which these are needed; NaN below KIND_TASKS of them.

    >>> enough_of_kind([100.0, 400.0, 300.0, 200.0, 500.0])
    500.0
    """
    if len(asks) < KIND_TASKS:
        return math.nan
    ordered = sorted(asks)
    return float(ordered[min(len(ordered) - 1, math.ceil(KIND_PART * len(ordered)) - 1)])


def percentile(values: Floats, rank: float) -> float:
    """Linear between order statistics, at (n - 1) x rank / 100."""
    return float(np.percentile(values, rank))


def asked_memory_mb(used_kb: Floats, rank: float = 75.0, margin_percent: int = 10, least_mb: int = 0) -> int:
    """What PanDA asks for, in MB, where finished jobs used so many kB (n >= 1).

    Source: panda-server, ``task_utils_module`` (getScoutJobData_JEDI).
    """
    asked = int(percentile(used_kb, rank) * (100 + margin_percent) // 100 / 1024)
    return max(1 if asked < 0 else asked, least_mb)


@dataclass(frozen=True)
class Learned:
    """A quantile that was learned.

    Attributes:
        p50, ask: the middle, and the quantile that is asked for; NaN where it is not known.
        low, high: between them the second one lies with 90 %; high is infinite where it may be above all jobs.
        n, killed: jobs that finished, and that were killed for it.
        reason: why it is not known; empty where it is.
    """

    p50: float
    ask: float
    low: float
    high: float
    n: int
    killed: int
    reason: str


def learned_quantile(finished: Floats, killed: Floats, rank: float, least: int) -> Learned:
    """The ``rank`` percentile (Kaplan-Meier) of what jobs need.

    Args:
        finished: (n,) what finished jobs had.
        killed: (k,) what killed jobs had when they were killed: they need more than that.
        rank: in percent.
        least: jobs without which nothing is known.
    """
    n, k = len(finished), len(killed)
    p = rank / 100.0
    needed = max(least, math.ceil(_ABOVE / max(1.0 - p, 1e-9) - 1e-9))
    if n + k < needed:
        return Learned(math.nan, math.nan, math.nan, math.nan, n, k, f"{n + k} jobs have ended, {needed} are needed")
    values = np.concatenate([finished, killed])
    is_censored = np.concatenate([np.zeros(n, dtype=np.bool_), np.ones(k, dtype=np.bool_)])
    order = np.lexsort((is_censored, values))  # of equal ones those that finished first
    values, is_censored = values[order], is_censored[order]
    at_risk = np.arange(n + k, 0, -1, dtype=np.float64)
    survival = np.cumprod(np.where(is_censored, 1.0, 1.0 - 1.0 / at_risk))

    def at(level: float) -> float:
        reached = np.flatnonzero((survival <= 1.0 - level + 1e-12) & ~is_censored)
        return float(values[reached[0]]) if len(reached) else math.inf

    ask = at(p)
    spread = 1.645 * math.sqrt(p * (1.0 - p) / (n + k))
    low, high = at(max(p - spread, 0.0)), at(p + spread) if p + spread < 1.0 else math.inf
    if math.isinf(ask):
        return Learned(
            at(0.5), math.nan, low, math.inf, n, k, "too many jobs were killed: it lies above all that finished"
        )
    return Learned(at(0.5), ask, low, high, n, k, "")


def effective_number(weights: Floats) -> float:
    """How many equal cases weighted ones are worth (Kish 1965): fewer where weights differ much; 0 without any."""
    total = float(weights.sum())
    return 0.0 if total <= 0 else total * total / float((weights * weights).sum())


def censored_quantiles(values: Floats, is_known: Bools, weights: Floats, levels: Floats) -> Floats:
    """Quantiles of values of which some are only known to be larger than they are so far (weighted Kaplan-Meier).

    Leaving the unknown ones out would make every quantile too small: what waits long is known last.

    Args:
        values: (n,) what was seen, or so far.
        is_known: (n,) false where the value is only a lower bound.
        weights: (n,) positive.
        levels: (k,) between 0 and 1.

    Returns:
        (k,) values; infinite where the quantile lies above all that is known, NaN without any value.
    """
    if not len(values):
        return np.full(len(levels), np.nan)
    order = np.lexsort((~is_known, values))  # of equal ones the known first
    values, is_known, weights = values[order], is_known[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    survival = np.cumprod(np.where(is_known, 1.0 - weights / at_risk, 1.0))
    reached = np.where(is_known, 1.0 - survival, -1.0)
    reached = np.maximum.accumulate(reached)
    places = np.searchsorted(reached, levels - 1e-12, side="left")
    return np.where(places < len(values), values[np.minimum(places, len(values) - 1)], np.inf)
