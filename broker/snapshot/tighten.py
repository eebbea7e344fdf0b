"""Tighten queue limits by pilot reports: never looser, and only the requested columns.

A site reports these figures of itself, so they may shorten and shrink work, and central configuration stays the upper
bound. Source: HSF-TN-2016-02; ATLAS Production Job Brokerage, memory, disk and walltime of a queue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, frozen
from broker.domain.estimates import DEFAULT_COREPOWER_HS06, is_set, or_else
from broker.snapshot.snapshot import Snapshot

SOURCE = "features"


def tightened(snapshot: Snapshot, columns: Collection[str]) -> Snapshot:
    """The snapshot with the named columns of its queues tightened.

    Args:
        snapshot: the grid; it is not changed.
        columns: of ``corepower``, ``maxtime_s``, ``maxrss_mb`` and ``maxwdir_mb``.
    """
    if not columns or snapshot.unusable((SOURCE,)):
        return snapshot
    queues, features = snapshot.queues, snapshot.features
    cores, of_unified = or_else(queues.cores, 1.0), queues.unified
    offers: dict[str, Floats] = {
        "maxtime_s": features.maxtime_s[of_unified],
        "maxrss_mb": features.maxrss_per_core_mb[of_unified] * cores,
        # the queue table holds the work directory of the unified queue
        "maxwdir_mb": features.maxwdir_per_core_mb[of_unified] * or_else(queues.unified_cores, 1.0),
    }
    wanted = [name for name in offers if name in columns]
    changed: dict[str, Any] = {name: _smaller(getattr(queues, name), offers[name]) for name in wanted}
    if "corepower" in columns:
        power = or_else(queues.corepower, DEFAULT_COREPOWER_HS06)
        slower = features.corepower[of_unified] < power
        changed["corepower"] = np.where(slower, features.corepower[of_unified], queues.corepower)
    for column in changed.values():
        frozen(column)
    return dataclasses.replace(snapshot, queues=dataclasses.replace(queues, **changed))


def _smaller(limit: Floats, reported: Floats) -> Floats:
    """The tighter of two limits: 0 and NaN are none, and a report of 0 says nothing."""
    tighter = is_set(reported) & (~is_set(limit) | (reported < limit))
    return np.where(tighter, reported, limit)
