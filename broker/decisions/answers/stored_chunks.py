"""Groups of stored chunks evaluated together again: one VO, one snapshot, one version of the tuning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from broker import __version__
from broker.brokerages.base import Brokerage, Rules
from broker.brokerages.job.brokerage import JobBrokerage, StoredChunks
from broker.brokerages.job.chunk_jobs import estimated_jobs
from broker.codec.work_codec import Body, WorkCorruptError, unpacked
from broker.domain.arrays import Floats
from broker.domain.decisions import StoredDecision
from broker.engine.job.cycle import JobCycle
from broker.gdpconfig import Tuning
from broker.grid.answers.grid import snapshot_of
from broker.snapshot.snapshot import Snapshot
from broker.store.decisions.stored_cycles import NoSuchDecision, one_decision
from broker.store.gdpconfig_rows import TuningStore
from broker.store.query_context import QueryContext
from broker.store.snapshots.stored_snapshots import SnapshotLostError

BrokerageT = TypeVar("BrokerageT", bound=Brokerage[Any, Any])
BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class StoredBatch(Generic[BrokerageT, BatchT]):
    """Stored work with everything needed to evaluate it again."""

    brokerage: BrokerageT
    snapshot: Snapshot
    tuning: Tuning
    batch: BatchT
    rules: Rules


@dataclass(frozen=True)
class Group(StoredBatch[JobBrokerage, StoredChunks]):
    """Chunks of one VO that were decided on one snapshot by one version of the tuning."""

    @cached_property
    def jobs(self) -> Floats:
        """(T,) estimated number of jobs of each chunk; 0 if its cutting was not stored."""
        work = self.batch.work
        return np.zeros(len(self.batch.jeditaskid)) if work is None else estimated_jobs(work)

    def cycle(self, snapshot: Snapshot) -> JobCycle:
        """A cycle in which every chunk meets the same grid."""
        return self.brokerage.engine_cycle(snapshot, self.batch.stored.work, self.tuning, self.rules, independent=True)


def groups_of(query: QueryContext, brokerage: JobBrokerage, rules: Rules, decisions: Iterable[int]) -> Iterator[Group]:
    """The chunks of the decisions with these numbers; those that can no longer be evaluated are dropped."""
    grouped: defaultdict[tuple[str, int, bool, str | None], list[Body]] = defaultdict(list)
    for stored in _stored(query, decisions):
        if stored.record.work is None or stored.origin.snapshot is None:
            continue
        body = unpacked(stored.record.work)
        key = (
            stored.origin.snapshot,
            stored.origin.tuning,
            stored.origin.engine != __version__,
            brokerage.read_vo(body),
        )
        grouped[key].append(body)
    for (identifier, version, older, vo), bodies in grouped.items():
        try:
            batch = brokerage.decode(vo, bodies, older=older)
            batch.check()
            snapshot = snapshot_of(query.connection, identifier)
        except (WorkCorruptError, SnapshotLostError):
            continue
        published = TuningStore(query.names).version(query.connection, version)
        yield Group(brokerage, snapshot, published.tuning(vo), batch, rules)


def _stored(query: QueryContext, decisions: Iterable[int]) -> Iterator[StoredDecision]:
    for identifier in decisions:
        try:
            yield one_decision(query.connection, identifier)
        except NoSuchDecision:
            continue
