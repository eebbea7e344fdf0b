"""Figures with what is known of them: how many cells they are of, their interval, and how far off they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Part of the cells that must lie in their 80 % interval.
LEAST_INSIDE = 0.70


@dataclass(frozen=True)
class Estimate:
    """A figure with the number of cells it is of, and its 95 % interval by drawing cells again."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Checked:
    """How far a grid was off from what really was.

    Attributes:
        span: that it was compared with, as text; ``policy`` that placed the jobs, over ``seeds`` seeds.
        cells: that counted, and the part ``inside`` their interval.
        error: median absolute error of each figure over queues; ``by_queue`` over the figures of each.
        half_width: median half of the interval of each figure, as errors are measured.
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
        """Whether any cell counted, and enough of them lie in their interval."""
        return self.cells > 0 and self.inside >= LEAST_INSIDE
