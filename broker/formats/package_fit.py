"""Whether a piece of work fits into the time that is left of a slot. Pure.

Source: HSF-TN-2016-02, use cases 1 and 3; ATLAS Production Job Brokerage, estimated walltime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from broker.formats.machine_job_features import Derived


@dataclass(frozen=True)
class PackageOfWork:
    """Work in HS06 s, the slot that is to do it, and what does not scale (``base_walltime_s``)."""

    hs06sec: float
    cores: int
    corepower_hs06: float
    cpu_efficiency_percent: float
    base_walltime_s: int = 0

    @property
    def expected_walltime_s(self) -> int:
        """Seconds that it takes, rounded up; exact, so that a package of just the right size fits."""
        rate = self.cores * Fraction(str(self.corepower_hs06)) * Fraction(str(self.cpu_efficiency_percent)) / 100
        return math.ceil(self.base_walltime_s + Fraction(str(self.hs06sec)) / rate)


def fits(work: PackageOfWork, left_s: int | None) -> bool | None:
    """Whether the work ends within ``left_s``; ``None`` when that is unknown: the limit of the queue then decides."""
    return None if left_s is None else work.expected_walltime_s <= left_s


@dataclass(frozen=True)
class Fit:
    """How long work takes in a slot, and whether it ends in the time that is guaranteed; None where not known."""

    expected_walltime_s: int | None
    fits: bool | None


def fit_of(slot: Derived, hs06sec: float, cpu_efficiency_percent: float, base_walltime_s: int) -> Fit:
    """Whether work ends in the guaranteed time of a slot, whose cores and core power the site or the queue told."""
    if not slot.cores or not slot.corepower:
        return Fit(None, None)
    work = PackageOfWork(hs06sec, slot.cores, slot.corepower, cpu_efficiency_percent, base_walltime_s)
    return Fit(work.expected_walltime_s, fits(work, slot.guaranteed_s))
