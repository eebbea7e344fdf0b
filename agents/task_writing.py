"""Writing a batch of brokered tasks: one fenced transaction with nuclei, decisions and the snapshot they refer to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from agents import fault_points
from agents.grid_reading import GridReading
from agents.placement_writing import LIMITS
from broker.brokerages.task_placement import task_placement
from broker.brokerages.task_placing import PlacedTask
from broker.domain.task_work_codec import encode_task_work, task_of
from broker.engine.task_cycle import TaskCycle
from broker.store import decisions, leases, snapshots
from broker.store.database import Database
from broker.store.decisions import DecisionRecord, Origin
from broker.store.leases import Lease
from broker.store.pending_times import waits_until
from broker.store.replay import TASK_CHANGED
from broker.store.task_assignments import NucleiWritten, NucleusWriter


def batches(placed: Iterable[PlacedTask], size: int) -> Iterator[list[PlacedTask]]:
    """The tasks, as they come, in batches of ``size``."""
    batch: list[PlacedTask] = []
    for task in placed:
        batch.append(task)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def records_of(placed: Sequence[PlacedTask], written: NucleiWritten | None, now: datetime) -> list[DecisionRecord]:
    """The decisions with what became of them; ``written`` None: everything would have been written.

    ``assigned`` has the nucleus with the one task that it got.
    """
    records = []
    for task in placed:
        decision = task.decision
        if written is not None and decision.jeditaskid in written.skipped:
            decision = dataclasses.replace(decision, outcome="skipped", reason=TASK_CHANGED)
        got = {decision.candidates[0].name: 1} if decision.outcome == "brokered" else {}
        records.append(DecisionRecord(decision, got, waits_until(decision, now)))
    return records


@dataclass
class TaskBatchWriter:
    """Writes the batches of one cycle.

    Attributes:
        database: where to.
        lease: under which every batch is written.
        origin: of the decisions.
        grid: the snapshot, stored with the first batch.
        counts: what has been written so far.
    """

    database: Database
    lease: Lease
    origin: Origin
    grid: GridReading
    counts: dict[str, int] = field(default_factory=dict)
    _snapshot_stored: bool = False

    def write(self, placed: Sequence[PlacedTask], cycle: TaskCycle) -> list[DecisionRecord]:
        """Write one batch, all of it or nothing.

        Raises:
            StaleLeaseError: the lease is not in force any more; nothing was written.
        """
        placement = task_placement(placed, cycle)
        packed = [_packed(task, cycle) for task in placed]
        fault_points.reach("before_write")
        with self.database.begin() as connection:
            connection.execute(LIMITS)
            leases.fence(connection, self.lease)
            raw = Database.raw(connection)
            written = NucleusWriter(raw, self.database.names, self.origin.decided_at).write(placement)
            records = records_of(placed, written, self.origin.decided_at)
            self._store_snapshot(connection)
            kept = [dataclasses.replace(one, work=data) for one, data in zip(records, packed, strict=True)]
            decisions.save(raw, self.origin, kept)
            fault_points.reach("after_write_before_commit")
            leases.fence(connection, self.lease, closing=True)
        fault_points.reach("after_commit")
        self._snapshot_stored = True
        for name, count in written.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return records

    def _store_snapshot(self, connection: sa.Connection) -> None:
        if self._snapshot_stored:
            return
        snapshot = self.grid.snapshot
        snapshots.save(connection, snapshot.id, snapshot.taken_at, self.origin.engine, self.grid.parts, self.grid.about)


def _packed(task: PlacedTask, cycle: TaskCycle) -> bytes:
    return encode_task_work(
        task_of(cycle.work, task.row),
        cycle.snapshot.nuclei.name,
        cycle.all_work_hs06s,
        task.share_work_hs06s,
        task.placed_hs06s,
    )
