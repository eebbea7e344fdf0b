"""Confidence intervals over seeds, and of differences of policies that met the same weather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Fewer seeds than this cannot tell policies apart; an interval is still given, and marked.
FEWEST_SEEDS = 10


@dataclass(frozen=True)
class Interval:
    """A mean with the half-width of its 95 % interval.

    ``half_width`` is NaN for fewer than two values and where one is infinite.
    """

    mean: float
    half_width: float
    values: int

    @property
    def enough_seeds(self) -> bool:
        """Whether the interval is of at least ten seeds."""
        return self.values >= FEWEST_SEEDS

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside: for a difference, whether it is told from chance."""
        return not math.isnan(self.half_width) and abs(self.mean) > self.half_width


def t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution."""
    if degrees < 1:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def interval(values: Sequence[float]) -> Interval:
    """The mean of the values that are known, with its interval mean +- t(.975, n - 1) s / sqrt(n).

    Infinite values, such as of a quantile that lies beyond the record, make the mean infinite, or unknown where they
    are of both signs.
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Interval(math.nan, math.nan, 0)
    if math.inf in known and -math.inf in known:
        return Interval(math.nan, math.nan, len(known))
    mean = math.fsum(known) / len(known)
    if len(known) < 2 or math.isinf(mean):
        return Interval(mean, math.nan, len(known))
    spread = float(np.std(known, ddof=1))
    return Interval(mean, t_quantile(len(known) - 1) * spread / math.sqrt(len(known)), len(known))


def paired(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The interval of the differences ``values - others``, seed by seed.

    Raises:
        ValueError: there are not as many of one as of the other.
    """
    return interval([value - other for value, other in zip(values, others, strict=True)])
