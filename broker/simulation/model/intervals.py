"""Confidence intervals over seeds, and of differences of policies on the same draws."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
#: Fewer seeds than this cannot distinguish policies; an interval is still given, and marked.
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
        """Whether the interval rests on at least ten seeds."""
        return self.values >= FEWEST_SEEDS

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval: for a difference, whether it is significant."""
        return not math.isnan(self.half_width) and abs(self.mean) > self.half_width

    @property
    def p_value(self) -> float:
        """Two-sided probability of a mean this far from 0 by chance (t test); NaN if the half-width is NaN."""
        if math.isnan(self.half_width) or self.values < 2:
            return math.nan
        if self.half_width == 0.0:
            return 1.0 if self.mean == 0.0 else 0.0
        from scipy.special import stdtr

        statistic = abs(self.mean) / self.half_width * t_quantile(self.values - 1)
        return float(2.0 * stdtr(self.values - 1, -statistic))


def holm(p_values: Mapping[Key, float], level: float = 0.05) -> frozenset[Key]:
    """The significant ones of many tests, with a probability ``level`` of any error among them (Holm).

    Tests whose probability is NaN do not count.
    """
    known = sorted(((p, name) for name, p in p_values.items() if not math.isnan(p)), key=lambda entry: entry[0])
    significant = []
    for place, (p, name) in enumerate(known):
        if p > level / (len(known) - place):
            break
        significant.append(name)
    return frozenset(significant)


def seeds_to_find(difference: Interval, effect: float) -> int | None:
    """Seeds needed to detect a difference of ``effect`` four times in five at 5 %; None if they cannot be computed.

    n = ((1.96 + 0.84) s / effect)^2, with the spread s of the paired differences.
    """
    if math.isnan(difference.half_width) or difference.values < 2 or effect <= 0:
        return None
    spread = difference.half_width * math.sqrt(difference.values) / t_quantile(difference.values - 1)
    return max(2, math.ceil(((1.96 + 0.84) * spread / effect) ** 2))


def t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution."""
    if degrees < 1:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def interval(values: Sequence[float]) -> Interval:
    """The mean of the known values, with its interval mean +- t(.975, n - 1) s / sqrt(n).

    Infinite values, such as a quantile beyond the record, make the mean infinite, or unknown if they have both signs.
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
        ValueError: the numbers of values differ.
    """
    return interval([value - other for value, other in zip(values, others, strict=True)])
