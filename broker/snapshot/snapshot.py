"""The snapshot: everything that the brokerages know about the grid at one instant, immutable.

:func:`tightened` returns it with limits of queues tightened by pilot reports: never loosened, and only the requested
columns. Sites report these figures about themselves, so they may only shorten and shrink work; central configuration
remains the upper bound.

Source: HSF-TN-2016-02; ATLAS Production Job Brokerage, memory, disk and walltime of a queue.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid
from broker.domain.arrays import Bools, Floats, frozen
from broker.domain.estimates import DEFAULT_COREPOWER_HS06, is_set, or_else
from broker.domain.grid import NO_POOLS, JobCounts, LinkMatrix, NucleusTable, PoolTable, RelationTable, StorageTable
from broker.domain.queues import FeatureTable, QueueTable, SlotTable, UnifiedTable, no_queues
from broker.domain.work import DroppedRow
from broker.snapshot.raw import SourceState


@dataclass(frozen=True)
class ResourceType:
    """A resource type: bounds on cores and MB per core of its jobs; NaN is an open bound."""

    name: str
    mincore: float
    maxcore: float
    minrampercore_mb: float
    maxrampercore_mb: float


@dataclass(frozen=True)
class Snapshot:
    """The grid at ``taken_at`` (aware UTC).

    ``shares_storage`` (N, U): the unified queues that write where the first queue of each nucleus reads. ``states``
    has one entry per source; ``dropped_rows`` holds the unusable rows, each with its reason.
    """

    id: str
    taken_at: datetime
    queues: QueueTable
    unified: UnifiedTable
    slots: SlotTable
    storages: StorageTable
    relations: RelationTable
    nuclei: NucleusTable
    links: LinkMatrix
    jobs: JobCounts
    shares_storage: Bools
    features: FeatureTable  # of unified queues
    states: tuple[SourceState, ...]
    dropped_rows: tuple[DroppedRow, ...]
    pools: PoolTable = NO_POOLS
    analysis: AnalysisGrid = field(default_factory=AnalysisGrid)  # empty for the brokerages of production
    offered: Mapping[str, Any] = field(default_factory=dict)  # values of sources of other distributions, by name
    parents: QueueTable = field(default_factory=no_queues)  # the unified queues themselves, which are not candidates
    types_without_minrampercore: frozenset[str] = frozenset()  # names of resource types
    resource_types: tuple[ResourceType, ...] = ()  # by name

    def unusable(self, sources: Collection[str]) -> list[SourceState]:
        """The states of the given sources that are unusable."""
        return [state for state in self.states if state.name in sources and not state.usable]

    @property
    def now_s(self) -> float:
        """The instant in seconds since 1970 UTC."""
        return self.taken_at.timestamp()


def snapshot_id(taken_at: datetime, digests: Collection[tuple[str, str]]) -> str:
    """The name of a snapshot: its instant and a digest of its sources' digests; equal for equal content."""
    joined = "\n".join(f"{name} {digest}" for name, digest in sorted(digests))
    return f"{taken_at:%Y%m%dT%H%M%S}-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"


SOURCE = "features"


def tightened(snapshot: Snapshot, columns: Collection[str]) -> Snapshot:
    """The snapshot with the named columns of its queues tightened.

    Args:
        snapshot: the grid; it is not modified.
        columns: any of ``corepower``, ``maxtime_s``, ``maxrss_mb`` and ``maxwdir_mb``.
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
    names = [name for name in offers if name in columns]
    changed: dict[str, Any] = {name: _smaller(getattr(queues, name), offers[name]) for name in names}
    if "corepower" in columns:
        power = or_else(queues.corepower, DEFAULT_COREPOWER_HS06)
        slower = features.corepower[of_unified] < power
        changed["corepower"] = np.where(slower, features.corepower[of_unified], queues.corepower)
    for column in changed.values():
        frozen(column)
    return dataclasses.replace(snapshot, queues=dataclasses.replace(queues, **changed))


def _smaller(limit: Floats, reported: Floats) -> Floats:
    """The tighter of two limits: 0 and NaN mean no limit, and a report of 0 is ignored."""
    tighter = is_set(reported) & (~is_set(limit) | (reported < limit))
    return np.where(tighter, reported, limit)
