"""Writing a batch of placed chunks: one fenced transaction with jobs, decisions and the snapshot they refer to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import sqlalchemy as sa

from agents import fault_points
from agents.grid_reading import GridReading
from broker.brokerages.placement import placement_of
from broker.brokerages.placing import PlacedChunk
from broker.domain.arrays import Bools
from broker.domain.placements import Placement
from broker.domain.work_codec import chunk_of, encode_work
from broker.store import decisions, leases, snapshots
from broker.store.assignments import AssignmentWriter, Written
from broker.store.database import Database
from broker.store.decisions import DecisionRecord, Origin
from broker.store.leases import Lease
from broker.store.pending_times import waits_until
from broker.store.replay import FILES_CHANGED, TASK_CHANGED
from broker.work.assemble import CycleWork
from broker.work.cut_codec import encode_cut

# A process that is paused in the middle of its transaction must not keep the next leader waiting: between the closing
# fence and the commit a take-over waits for it.
LIMITS = sa.text("SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '5s'")


def batches(placed: Iterable[PlacedChunk], work: CycleWork, size: int) -> Iterator[list[PlacedChunk]]:
    """The chunks, as they come, in batches of ``size`` or a little more: chunks of one task stay together."""
    task_of = work.work.chunks.jeditaskid
    batch: list[PlacedChunk] = []
    for chunk in placed:
        if len(batch) >= size and task_of[chunk.row] != task_of[batch[-1].row]:
            yield batch
            batch = []
        batch.append(chunk)
    if batch:
        yield batch


def records_of(
    placed: Sequence[PlacedChunk], work: CycleWork, grid: GridReading, written: Written | None, now: datetime
) -> list[DecisionRecord]:
    """The decisions with what became of them; ``written`` None: everything would have been written."""
    chunks = work.work.chunks
    lengths = np.array([len(chunk.candidate) for chunk in placed], dtype=np.int64)
    kept = np.ones(int(lengths.sum()), dtype=np.bool_) if written is None else written.kept
    ends = np.cumsum(lengths)
    records = []
    for chunk, start, end in zip(placed, ends - lengths, ends, strict=True):
        skipped = written is not None and int(chunks.jeditaskid[chunk.row]) in written.tasks_skipped
        record = _record(chunk, grid, kept[start:end], skipped)
        records.append(dataclasses.replace(record, pending_until=waits_until(record.decision, now)))
    return records


def _record(chunk: PlacedChunk, grid: GridReading, kept: Bools, task_skipped: bool) -> DecisionRecord:
    decision = chunk.decision
    assigned = dataclasses.replace(chunk, candidate=chunk.candidate[kept]).assigned(grid.snapshot.queues.name)
    if task_skipped:
        decision = dataclasses.replace(decision, outcome="skipped", reason=TASK_CHANGED)
    elif decision.outcome == "brokered" and not assigned:
        decision = dataclasses.replace(decision, outcome="skipped", reason=FILES_CHANGED)
    elif not kept.all():
        lost = len(kept) - int(kept.sum())
        decision = dataclasses.replace(decision, notes=(*decision.notes, f"{FILES_CHANGED}:{lost}"))
    return DecisionRecord(decision, assigned)


@dataclass(frozen=True)
class Batch:
    """Chunks of one transaction: with the jobs to be written (None: only decisions), and the work of each as bytes."""

    placed: Sequence[PlacedChunk]
    work: CycleWork
    placement: Placement | None
    packed: Sequence[bytes]


@dataclass
class BatchWriter:
    """Writes the batches of one cycle.

    Attributes:
        database: where to.
        lease: under which every batch is written.
        makes_jobs: False beside JEDI: decisions are recorded, nothing else is touched.
        origin: of the decisions.
        grid: the snapshot, stored with the first batch.
        counts: what has been written so far.
    """

    database: Database
    lease: Lease
    makes_jobs: bool
    origin: Origin
    grid: GridReading
    counts: dict[str, int] = field(default_factory=dict)
    _snapshot_stored: bool = False

    def prepare(self, placed: Sequence[PlacedChunk], work: CycleWork) -> Batch:
        """What of a batch can be worked out without the database."""
        placement = placement_of(placed, work, self.grid.snapshot) if self.makes_jobs else None
        packed = [
            encode_work(chunk_of(work.work, chunk.row), chunk.before, encode_cut(work, chunk.row)) for chunk in placed
        ]
        return Batch(placed, work, placement, packed)

    def write(self, batch: Batch) -> list[DecisionRecord]:
        """Write one batch, all of it or nothing.

        Raises:
            StaleLeaseError: the lease is not in force any more; nothing was written.
        """
        placed, work, placement = batch.placed, batch.work, batch.placement
        fault_points.reach("before_write")
        with self.database.begin() as connection:
            connection.execute(LIMITS)
            leases.fence(connection, self.lease)
            raw = Database.raw(connection)
            written: Written | None = None
            if placement is not None:
                written = AssignmentWriter(raw, self.database.names, self.origin.decided_at).write(placement)
            records = records_of(placed, work, self.grid, written, self.origin.decided_at)
            self._store_snapshot(connection)
            kept = [dataclasses.replace(one, work=data) for one, data in zip(records, batch.packed, strict=True)]
            decisions.save(raw, self.origin, kept)
            fault_points.reach("after_write_before_commit")
            leases.fence(connection, self.lease, closing=True)
        fault_points.reach("after_commit")
        self._snapshot_stored = True
        for name, count in (written.counts if written is not None else {}).items():
            self.counts[name] = self.counts.get(name, 0) + count
        return records

    def _store_snapshot(self, connection: sa.Connection) -> None:
        if self._snapshot_stored:
            return
        snapshot = self.grid.snapshot
        snapshots.save(connection, snapshot.id, snapshot.taken_at, self.origin.engine, self.grid.parts, self.grid.about)


def reactivate(database: Database, lease: Lease, now: datetime, *, for_users: bool = False) -> int:
    """Give tasks that have waited long enough their status back, in a fenced transaction; how many there were."""
    with database.begin() as connection:
        connection.execute(LIMITS)
        leases.fence(connection, lease)
        count = AssignmentWriter(Database.raw(connection), database.names, now).reactivate(for_users=for_users)
        leases.fence(connection, lease, closing=True)
    return count
