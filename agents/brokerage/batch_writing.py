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
from broker.domain.placements import WriteOutcome
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.snapshots import stored_snapshots as snapshots

IDLE_SNAPSHOT_EVERY = timedelta(minutes=10)
"""How often a brokerage without work stores the grid; unchanged parts are not stored again."""


def batches(assigned: Iterable[Assigned], size: int) -> Iterator[list[Assigned]]:
    """Batch pieces of work, in their order, by ``size`` or a little more: chunks of one task stay together."""
    batch: list[Assigned] = []
    for piece in assigned:
        if len(batch) >= size and piece.decision.jeditaskid != batch[-1].decision.jeditaskid:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def records_of(
    brokerage: AnyBrokerage,
    cycle: Cycle[Any],
    assigned: Sequence[Assigned],
    written: WriteOutcome | None,
    now: datetime,
    each_cycle: bool = False,
) -> list[DecisionRecord]:
    """The decisions with their outcome and the instant until which their tasks wait.

    ``written`` None: as if everything had been written. ``each_cycle``: every cycle decides the tasks again, so there
    is no such instant.
    """
    return [
        dataclasses.replace(record, pending_until=None if each_cycle else brokerage.waits_until(record.decision, now))
        for record in cycle.records(assigned, written, now)
    ]


@dataclass(frozen=True)
class Batch:
    """The work of one transaction: with the rows to write (None: only decisions), and each piece as bytes."""

    cycle: Cycle[Any]
    assigned: Sequence[Assigned]
    rows: Any
    packed: Sequence[bytes]


@dataclass
class BatchWriter:
    """Writes the batches of one cycle.

    Attributes:
        brokerage: the brokerage that decided.
        tables: tables of the brokerage.
        context: context of a cycle that writes.
        writes_rows: False: only decisions are recorded.
        origin: origin of the decisions.
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
        """Compute the part of a batch that needs no database."""
        for piece in assigned:
            piece.decision  # noqa: B018 - made now, not while tasks are locked
        rows = cycle.rows(assigned) if self.writes_rows else None
        return Batch(cycle, assigned, rows, [cycle.encode(piece) for piece in assigned])

    def write(self, batch: Batch) -> list[DecisionRecord]:
        """Write one batch, all of it or nothing.

        Raises:
            StaleLeaseError: the lease is no longer in force; nothing was written.
        """
        now = self.origin.decided_at
        fault_points.reach("before_write")
        with self.context.writing() as connection:
            raw = Database.raw(connection)
            written: WriteOutcome | None = None
            if batch.rows is not None:
                written = self.tables.write(raw, self.context.database.names, now, batch.rows)
            records = records_of(self.brokerage, batch.cycle, batch.assigned, written, now, self.tables.each_cycle)
            packed_records = [
                dataclasses.replace(record, work=data) for record, data in zip(records, batch.packed, strict=True)
            ]
            decisions.save(raw, self.origin, packed_records)
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
    """Store the snapshot of a cycle that decided nothing, if the agent's last stored snapshot is too old.

    Queues, links and users are shown from the last stored snapshot: it must stay current while no work arrives.

    Raises:
        StaleLeaseError: the lease is no longer in force; nothing was written.
    """
    with context.writing() as connection:
        last = snapshots.last_of_agents(connection, [agent])
        if not last or grid.snapshot.taken_at - last[0].taken_at >= IDLE_SNAPSHOT_EVERY:
            _save_grid(connection, grid, engine)


def wake(context: CycleContext, tables: BrokerageTables[Any, Any]) -> Mapping[str, int]:
    """Reactivate tasks that have waited long enough, in a fenced transaction; return their number."""
    with context.writing() as connection:
        return tables.wake(Database.raw(connection), context.database.names, context.now)
