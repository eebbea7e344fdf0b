"""Figures that pilots report about their queues, and the queue columns that a report may tighten.

Source: HSF-TN-2016-02, use of the keys by a broker.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.arrays import Floats


@dataclass(frozen=True)
class FeatureTable:
    """Figures of unified queues (length U), NaN where too few pilots said anything.

    ``corepower`` is HS06 per core, ``maxtime_s`` the walltime that nearly all pilots allow, memory and disk in MB for
    one core. ``shutdown_s``: UNIX seconds by which nearly all of the pilots that announce a shutdown are still there;
    set only where most pilots announce one.
    """

    pilots: Floats
    corepower: Floats
    maxtime_s: Floats
    maxrss_per_core_mb: Floats
    maxwdir_per_core_mb: Floats
    shutdown_s: Floats

    def __len__(self) -> int:
        return len(self.pilots)


TIGHTENING_KEYS: dict[str, str] = {
    "FEATURES_COREPOWER": "corepower",
    "FEATURES_MAXTIME": "maxtime_s",
    "FEATURES_MAXRSS": "maxrss_mb",
    "FEATURES_MAXWDIR": "maxwdir_mb",
}
"""Tuning key to the column of the queue table that reports may tighten while it is on."""
