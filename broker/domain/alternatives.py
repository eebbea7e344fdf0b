"""Ways in which a task may be run, and the text by which a chunk says which numbers of cores it accepts.

Source: Scalable Systems Software Job Object Specification 3.0.3, preferences and fuzzy requirements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.domain.estimates import MEMORY_COMPENSATION


@dataclass(frozen=True)
class WayToRun:
    """One alternative; ``None`` where nothing is asked. Bounds are included."""

    min_cores: int | None = None
    max_cores: int | None = None
    without_cores: tuple[float, ...] = ()
    memory_mb: int | None = None
    disk_mb: int | None = None
    wall_s: int | None = None

    @property
    def ramcount_mb(self) -> int | None:
        """What a task must ask for so that its jobs, which get a little less than that, get the memory."""
        return None if self.memory_mb is None else math.ceil(self.memory_mb / MEMORY_COMPENSATION)

    @property
    def accepted_cores(self) -> str | None:
        """The numbers of cores as text: ``8``, ``8-16``, ``8-``, ``8-!12``; ``None`` for any."""
        if self.min_cores is None:
            return None
        high = "" if self.max_cores is None else str(self.max_cores)
        span = high if self.max_cores == self.min_cores else f"{self.min_cores}-{high}"
        return span + "".join(f"!{one:g}" for one in self.without_cores)


def accepts_cores(accepted: str | None, cores: float) -> bool:
    """Whether a number of cores is among those of :attr:`WayToRun.accepted_cores`; 0 and NaN are one core."""
    if accepted is None:
        return True
    span, *without = accepted.split("!")
    low, dash, high = span.partition("-")
    count = cores if cores > 0 else 1.0
    top = float(low) if not dash else float(high) if high else float("inf")
    return float(low) <= count <= top and count not in {float(one) for one in without}
