"""Ways in which a task may be run, and which numbers of cores a chunk accepts.

Source: Scalable Systems Software Job Object Specification 3.0.3, preferences and fuzzy requirements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from broker.domain.estimates import MEMORY_COMPENSATION


@dataclass(frozen=True)
class AcceptedCores:
    """The numbers of cores of a slot that a job accepts; the bounds are included.

    Attributes:
        low: the fewest.
        high: the most; None without a bound.
        without: numbers between them that are not accepted.
    """

    low: float
    high: float | None = None
    without: tuple[float, ...] = ()

    def accepts(self, cores: float) -> bool:
        """Whether a number of cores is accepted; 0 and NaN are one core."""
        count = cores if cores > 0 else 1.0
        return self.low <= count and (self.high is None or count <= self.high) and count not in self.without

    def __str__(self) -> str:
        """The range as text, such as ``8``, ``8-16``, ``8-`` or ``8-!12``."""
        high = "" if self.high is None else f"{self.high:g}"
        span = high if self.high == self.low else f"{self.low:g}-{high}"
        return span + "".join(f"!{one:g}" for one in self.without)

    def stored(self) -> str:
        """The alternative as JSON, as stored with a decision."""
        return str(self)

    @classmethod
    def of_stored(cls, value: Any) -> AcceptedCores:
        """Read the JSON of :meth:`stored`.

        Raises:
            ValueError: it is nothing of the kind.
            AttributeError: it is nothing of the kind.
        """
        span, *without = value.split("!")
        low, dash, high = span.partition("-")
        top = float(low) if not dash else float(high) if high else None
        return cls(float(low), top, tuple(float(one) for one in without))


@dataclass(frozen=True)
class WayToRun:
    """One alternative; ``None`` where the task asks nothing. Bounds are inclusive."""

    min_cores: int | None = None
    max_cores: int | None = None
    without_cores: tuple[float, ...] = ()
    memory_mb: int | None = None
    disk_mb: int | None = None
    wall_s: int | None = None

    @property
    def ramcount_mb(self) -> int | None:
        """The memory in MB that a task must ask for: its jobs get a little less than that."""
        return None if self.memory_mb is None else math.ceil(self.memory_mb / MEMORY_COMPENSATION)

    @property
    def accepted_cores(self) -> AcceptedCores | None:
        """The numbers of cores of a slot that are accepted; None for any."""
        if self.min_cores is None:
            return None
        return AcceptedCores(self.min_cores, self.max_cores, self.without_cores)
