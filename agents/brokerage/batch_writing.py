"""Writing a batch of brokered work: one fenced transaction with rows, decisions and the snapshot they refer to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from agents.brokerage.grid_reading import GridReading
from agents.brokerage.tables import BrokerageTables
from agents.service import fault_points
from agents.service.base import CycleContext
from broker.brokerages.base import Assigned, Cycle
from broker.brokerages.registry import AnyBrokerage
from broker.domain.decisions import DecisionRecord, Origin
from broker.domain.placements import Written
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.snapshots import stored_snapshots as snapshots

IDLE_SNAPSHOT_EVERY = timedelta(minutes=10)
"""A brokerage without work stores the grid that often: parts that did not change are not stored again."""


def batches(assigned: Iterable[Assigned], size: int) -> Iterator[list[Assigned]]:
    """The pieces of work, as they come, in batches of ``size`` or a little more: chunks of one task stay together."""
    batch: list[Assigned] = []
    for one in assigned:
        if len(batch) >= size and one.decision.jeditaskid != batch[-1].decision.jeditaskid:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def records_of(
    brokerage: AnyBrokerage,
    cycle: Cycle[Any],
    assigned: Sequence[Assigned],
    written: Written | None,
    now: datetime,
    each_cycle: bool = False,
) -> list[DecisionRecord]:
    """The decisions with what became of them and until when their tasks wait.

    ``written`` None: everything would have been written. ``each_cycle``: they are decided again in each, at no instant.
    """
    return [
        dataclasses.replace(record, pending_until=None if each_cycle else brokerage.waits_until(record.decision, now))
        for record in cycle.records(assigned, written, now)
    ]


@dataclass(frozen=True)
class Batch:
    """Work of one transaction: with the rows to be written (None: only decisions), and each piece as bytes."""

    cycle: Cycle[Any]
    assigned: Sequence[Assigned]
    rows: Any
    packed: Sequence[bytes]


@dataclass
class BatchWriter:
    """Writes the batches of one cycle.

    Attributes:
        brokerage: that decided.
        tables: of the brokerage.
        context: of the cycle, which writes.
        writes_rows: False where decisions are recorded and nothing else is touched.
        origin: of the decisions.
        grid: the snapshot, stored with the first batch.
        counts: what has been written so far.
    """

    brokerage: AnyBrokerage
    tables: BrokerageTables[Any, Any]
    context: CycleContext
    writes_rows: bool
    origin: Origin
    grid: GridReading
    counts: dict[str, int] = field(default_factory=dict)
    _snapshot_stored: bool = False

    def prepare(self, cycle: Cycle[Any], assigned: Sequence[Assigned]) -> Batch:
        """What of a batch can be worked out without the database."""
        for one in assigned:
            one.decision  # noqa: B018 - made now, not while tasks are locked
        rows = cycle.rows(assigned) if self.writes_rows else None
        return Batch(cycle, assigned, rows, [cycle.encode(one) for one in assigned])

    def write(self, batch: Batch) -> list[DecisionRecord]:
        """Write one batch, all of it or nothing.

        Raises:
            StaleLeaseError: the lease is not in force any more; nothing was written.
        """
        now = self.origin.decided_at
        fault_points.reach("before_write")
        with self.context.writing() as connection:
            raw = Database.raw(connection)
            written: Written | None = None
            if batch.rows is not None:
                written = self.tables.write(raw, self.context.database.names, now, batch.rows)
            records = records_of(self.brokerage, batch.cycle, batch.assigned, written, now, self.tables.each_cycle)
            kept = [dataclasses.replace(one, work=data) for one, data in zip(records, batch.packed, strict=True)]
            decisions.save(raw, self.origin, kept)
            # last, as in the plug-in for JEDI: another broker may be storing the same parts of a snapshot, and waits
            self._store_snapshot(connection)
            fault_points.reach("after_write_before_commit")
        fault_points.reach("after_commit")
        self._snapshot_stored = True
        for name, count in (written.counts if written is not None else {}).items():
            self.counts[name] = self.counts.get(name, 0) + count
        return records

    def _store_snapshot(self, connection: sa.Connection) -> None:
        if not self._snapshot_stored:
            _save_grid(connection, self.grid, self.origin.engine)


def _save_grid(connection: sa.Connection, grid: GridReading, engine: str) -> None:
    snapshots.save(connection, grid.snapshot.id, grid.snapshot.taken_at, engine, grid.parts, grid.about)


def store_grid_when_idle(context: CycleContext, agent: str, grid: GridReading, engine: str) -> None:
    """Store the snapshot of a cycle that decided nothing, where the agent's last stored one has grown old.

    What is shown of queues, links and users is the last stored snapshot: it must not stand still while no work comes.

    Raises:
        StaleLeaseError: the lease is not in force any more; nothing was written.
    """
    with context.writing() as connection:
        last = snapshots.last_of_agents(connection, [agent])
        if not last or grid.snapshot.taken_at - last[0].taken_at >= IDLE_SNAPSHOT_EVERY:
            _save_grid(connection, grid, engine)


def wake(context: CycleContext, tables: BrokerageTables[Any, Any]) -> Mapping[str, int]:
    """Give tasks that have waited long enough their status back, in a fenced transaction; how many there were."""
    with context.writing() as connection:
        return tables.wake(Database.raw(connection), context.database.names, context.now)
