"""Upkeep of the decision store: makes days ahead, drops whole days, packs old rows, and rolls up buckets.

Each step is its own short fenced transaction. A table that another process has locked is left to the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from typing import TypeVar

import psycopg
import sqlalchemy as sa

from agents.service.base import CycleContext
from broker.store.decisions import decision_days, decision_packing
from broker.store.decisions.decision_packing import DecisionPacker
from broker.store.summaries import count_writing

T = TypeVar("T")

DAYS_AHEAD = 3
_USE_OF_BUDGET = 0.6
"""Fraction of the cycle's time after which no further batch of old rows is packed."""


@dataclass
class DecisionUpkeep:
    """The upkeep in one cycle.

    Attributes:
        context: context of a cycle that writes.
        packer: packs old rows; kept from cycle to cycle.
        rows_of_a_batch: old rows packed in one transaction.
        counts: how much was done, by kind.
        notes: remarks on what was not done.
    """

    context: CycleContext
    packer: DecisionPacker
    rows_of_a_batch: int
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self, drop_before: datetime | None, *, every_day: bool) -> None:
        """Run all steps that are due.

        Args:
            drop_before: days that ended before this instant are dropped; None: no days.
            every_day: drop all due days, whatever the clock says; otherwise one a cycle, so that a wrong clock does
                not empty the store at once.
        """
        self._make_days()
        if drop_before is not None:
            self._drop_days(drop_before, every_day=every_day)
        rolled = self._in_transaction(lambda connection: count_writing.roll_up(connection, self.context.now))
        if rolled:
            self.counts["buckets_rolled_up"] = rolled
        self._pack()

    def _make_days(self) -> None:
        with self.context.database.read_snapshot() as connection:
            if not decision_days.missing(connection, self.context.now, DAYS_AHEAD):
                return
        result = self._in_transaction(lambda connection: decision_days.make(connection, self.context.now, DAYS_AHEAD))
        if result is not None and result.created:
            self.counts["days_made"] = len(result.created)
        if result is not None and not result.owned:
            self.notes.append(
                "days of broker.decisions are made and dropped by the owner of the table only: rows are removed one by "
                "one; let the broker's role own schema broker"
            )

    def _drop_days(self, before: datetime, *, every_day: bool) -> None:
        with self.context.database.read_snapshot() as connection:
            due = decision_days.ended_before(decision_days.days(connection), before)
            owned = decision_days.may_change(connection)
        if not due or not owned:
            return
        for day in due if every_day else due[:1]:
            self.context.check()
            rows = self._in_transaction(partial(_drop_day, day=day))
            if rows is None:
                return
            self.counts["days_dropped"] = self.counts.get("days_dropped", 0) + 1
            self.counts["decisions_dropped"] = self.counts.get("decisions_dropped", 0) + rows
        if len(due) > 1 and not every_day:
            self.notes.append(f"{len(due) - 1} more days of decisions are due; one goes in a cycle, --force drops all")

    def _pack(self) -> None:
        with self.context.database.read_snapshot() as connection:
            if not decision_packing.has_unpacked(connection):
                return
        context = self.context
        total, packed = 0, 1
        while packed and context.monotonic() - context.started < _USE_OF_BUDGET * context.budget_s:
            context.check()
            done = self._in_transaction(
                lambda connection: self.packer.pack(connection, self.rows_of_a_batch, context.now)
            )
            packed = done or 0
            total += packed
        self.counts["decisions_packed"] = total
        if packed:
            self.notes.append("there are more decisions of an older release to pack; the next cycle goes on")

    def _in_transaction(self, step: Callable[[sa.Connection], T]) -> T | None:
        """Run a step in a fenced transaction; return its result, or None if a table stayed locked for too long."""
        try:
            with self.context.writing() as connection:
                result = step(connection)
        except sa.exc.OperationalError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            self.notes.append("a table of the store of decisions was in use for too long; the next cycle goes on")
            return None
        return result


def _drop_day(connection: sa.Connection, *, day: date) -> int:
    rows = decision_days.rows_of(connection, day)
    decision_days.drop(connection, day)
    return rows
