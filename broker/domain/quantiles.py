"""Quantiles of what jobs used, with and without killed jobs, and of waits some of which have not ended. Pure.

The usage of jobs killed for memory is a lower bound of their need: quantiles of finished jobs alone are too low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats

#: Fewest tasks of a kind with a known value, and the fraction of them for which the request is sufficient.
KIND_TASKS, KIND_PART = 5, 0.9
#: A quantile is known if this many jobs lie above it.
_ABOVE = 2


def enough_of_kind(asks: Sequence[float]) -> float:
    """The value sufficient for KIND_PART of the tasks of a kind with these needs; NaN for fewer than KIND_TASKS tasks.

    >>> enough_of_kind([100.0, 400.0, 300.0, 200.0, 500.0])
    500.0
    """
    if len(asks) < KIND_TASKS:
        return math.nan
    ordered = sorted(asks)
    return float(ordered[min(len(ordered) - 1, math.ceil(KIND_PART * len(ordered)) - 1)])


def percentile(values: Floats, rank: float) -> float:
    """The percentile by linear interpolation between order statistics, at (n - 1) x rank / 100."""
    return float(np.percentile(values, rank))


def memory_request_mb(used_kb: Floats, rank: float = 75.0, margin_percent: int = 10, least_mb: int = 0) -> int:
    """The memory in MB that PanDA requests, given the kB used by finished jobs (n >= 1).

    Source: panda-server, ``task_utils_module`` (getScoutJobData_JEDI).
    """
    requested_mb = int(percentile(used_kb, rank) * (100 + margin_percent) // 100 / 1024)
    return max(1 if requested_mb < 0 else requested_mb, least_mb)


@dataclass(frozen=True)
class LearnedQuantile:
    """A learned quantile.

    Attributes:
        p50, ask: the median, and the quantile to request; NaN if unknown.
        low, high: bounds between which ``ask`` lies with 90 %; high is infinite if it may lie above all jobs.
        n, killed: numbers of finished jobs, and of jobs killed for the resource.
        reason: why it is unknown; empty if it is known.
    """

    p50: float
    ask: float
    low: float
    high: float
    n: int
    killed: int
    reason: str


def learned_quantile(finished: Floats, killed: Floats, rank: float, least: int) -> LearnedQuantile:
    """The ``rank`` percentile (Kaplan-Meier) of what jobs need.

    Args:
        finished: (n,) usage of finished jobs.
        killed: (k,) usage of killed jobs when they were killed; they need more.
        rank: rank in percent.
        least: fewest jobs for a known quantile.
    """
    n, k = len(finished), len(killed)
    p = rank / 100.0
    needed = max(least, math.ceil(_ABOVE / max(1.0 - p, 1e-9) - 1e-9))
    if n + k < needed:
        return LearnedQuantile(
            math.nan, math.nan, math.nan, math.nan, n, k, f"{n + k} jobs have ended, {needed} are needed"
        )
    values = np.concatenate([finished, killed])
    is_censored = np.concatenate([np.zeros(n, dtype=np.bool_), np.ones(k, dtype=np.bool_)])
    order = np.lexsort((is_censored, values))  # among equal values, finished jobs first
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
        return LearnedQuantile(
            at(0.5), math.nan, low, math.inf, n, k, "too many jobs were killed: it lies above all that finished"
        )
    return LearnedQuantile(at(0.5), ask, low, high, n, k, "")


def effective_number(weights: Floats) -> float:
    """The effective number of weighted cases (Kish 1965): smaller if weights differ much; 0 without any."""
    total = float(weights.sum())
    return 0.0 if total <= 0 else total * total / float((weights * weights).sum())


def censored_quantiles(values: Floats, is_known: Bools, weights: Floats, levels: Floats) -> Floats:
    """Quantiles of values some of which are only known as lower bounds (weighted Kaplan-Meier).

    Leaving out the unknown values would make every quantile too small, since long waits are known last.

    Args:
        values: (n,) observed values, or values so far.
        is_known: (n,) False if the value is only a lower bound.
        weights: (n,) positive.
        levels: (k,) between 0 and 1.

    Returns:
        (k,) values; infinite if the quantile lies above all known values, NaN without any value.
    """
    if not len(values):
        return np.full(len(levels), np.nan)
    order = np.lexsort((~is_known, values))  # among equal values, known ones first
    values, is_known, weights = values[order], is_known[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    survival = np.cumprod(np.where(is_known, 1.0 - weights / at_risk, 1.0))
    reached = np.where(is_known, 1.0 - survival, -1.0)
    reached = np.maximum.accumulate(reached)
    places = np.searchsorted(reached, levels - 1e-12, side="left")
    return np.where(places < len(values), values[np.minimum(places, len(values) - 1)], np.inf)
