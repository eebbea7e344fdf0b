"""Figures with their uncertainty: the number of cells behind them, their interval, and their error in a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Minimum part of the cells that must lie in their 80 % interval.
LEAST_INSIDE = 0.70


@dataclass(frozen=True)
class Estimate:
    """A figure with the number of cells behind it, and its 95 % interval by resampling cells."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Checked:
    """The error of a grid in a comparison with measured figures.

    Attributes:
        span: span that it was compared with, as text.
        policy: policy that placed the jobs.
        seeds: number of seeds.
        cells: cells that counted.
        inside: part of the cells whose value lies in its interval.
        error: median absolute error of each figure over queues.
        by_queue: median absolute error of each queue over figures.
        half_width: median half-width of the interval of each figure, in the scale of errors.
    """

    span: str
    policy: str
    seeds: int
    cells: int
    inside: float
    error: Mapping[str, float]
    by_queue: Mapping[str, float]
    half_width: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether any cells counted, and enough of them lie in their interval."""
        return self.cells > 0 and self.inside >= LEAST_INSIDE
