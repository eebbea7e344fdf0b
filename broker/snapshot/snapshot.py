"""The snapshot: everything that the brokerages know of the grid, at one instant, and nothing that can change."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from broker.domain.analysis import AnalysisGrid
from broker.domain.arrays import Bools
from broker.domain.feature_table import FeatureTable
from broker.domain.grid import JobCounts, LinkMatrix, NucleusTable, RelationTable, StorageTable
from broker.domain.pool_table import NO_POOLS, PoolTable
from broker.domain.queues import QueueTable, SlotTable, UnifiedTable, no_queues
from broker.domain.work import DroppedRow
from broker.snapshot.build_queues import ResourceType
from broker.snapshot.source_states import SourceState


@dataclass(frozen=True)
class Snapshot:
    """The grid at ``taken_at`` (aware UTC).

    ``shares_storage`` (N, U) says for each nucleus which unified queues write where its first queue reads.
    ``states`` has one entry a source; ``dropped_rows`` the rows that could not be used, each with its reason.
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
    parents: QueueTable = field(default_factory=no_queues)  # the unified queues themselves, which are no candidates
    types_without_minrampercore: frozenset[str] = frozenset()  # names of resource types
    resource_types: tuple[ResourceType, ...] = ()  # by name

    def unusable(self, sources: Collection[str]) -> list[SourceState]:
        """Names of the given sources that cannot be used to judge now."""
        return [state for state in self.states if state.name in sources and not state.usable]

    @property
    def now_s(self) -> float:
        """Seconds since 1970 UTC of the instant."""
        return self.taken_at.timestamp()


def snapshot_id(taken_at: datetime, digests: Collection[tuple[str, str]]) -> str:
    """The name of a snapshot: its instant and a digest of its sources' digests. Equal content, equal name."""
    joined = "\n".join(f"{name} {digest}" for name, digest in sorted(digests))
    return f"{taken_at:%Y%m%dT%H%M%S}-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"
