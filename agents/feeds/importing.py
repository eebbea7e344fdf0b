"""Write a feed's tables and the record of their changes in one transaction under the lease: all of it, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from agents.feeds.obtaining import DocumentResult
from agents.service import fault_points
from agents.service.base import CycleContext, CycleReport
from agents.service.clock import ClockFault
from broker.domain.work import DroppedRow
from broker.errors import Refused
from broker.feeds.model.rows import MappedTable, RowChange, TableChanges, check_dropped_rows, compare, reasons
from broker.feeds.statements import feed_runs, table_writing
from broker.feeds.statements.feed_runs import FeedRun
from broker.fetching.documents import DocumentRefused
from broker.store.schema import migrate
from broker.store.service.leases import IDLE_WITHIN_S
from broker.store.snapshots import feed_documents

_log = logging.getLogger(__name__)
_FEWEST_GUARDED = 10
"""A table with fewer rows than this may lose any number of them."""


class FeedAlarm(Refused):
    """Some data of a feed were refused; what is on record stays."""


@dataclass(frozen=True)
class PlannedTable:
    """A table to be written.

    Attributes:
        table: its target rows.
        removes: whether rows that the document does not contain are removed.
        touched: keys of the rows whose ``last_update`` is set to the time of the cycle.
        firsts: values of the first key column of the rows to compare; None for all rows.
    """

    table: MappedTable
    removes: bool = True
    touched: Sequence[str] | None = None
    firsts: Sequence[str] | None = None


@dataclass(frozen=True)
class Forget:
    """Rows to remove because no document has mentioned them for too long.

    Attributes:
        table: the table that holds them.
        column: its column with the time at which they were last mentioned.
        before: rows with an earlier time are removed (aware).
        retained_keys: first parts of the keys of rows that stay.
    """

    table: str
    column: str
    before: datetime
    retained_keys: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """What a feed is to write.

    Attributes:
        tables: in the order of writing.
        afterwards: called after the tables, with whether it may write; returns further changes.
        forgets: outdated rows to remove after that.
        not_written: tables that cannot be built, and why.
        dropped_rows: dropped rows in addition to those of the tables.
    """

    tables: Sequence[PlannedTable]
    afterwards: Callable[[sa.Connection, bool], Iterable[TableChanges]] = lambda connection, writes: ()
    not_written: Mapping[str, str] = field(default_factory=dict)
    dropped_rows: Sequence[DroppedRow] = ()
    forgets: Sequence[Forget] = ()


@dataclass(frozen=True)
class Limits:
    """How much may disappear or be unusable.

    Attributes:
        max_shrink: share of the rows of a table that one run may remove.
        max_left_out: share of the records of a document that may be unusable.
    """

    max_shrink: float
    max_left_out: float


def require_standalone(context: CycleContext, feed: str) -> None:
    """Refuse to write PanDA's own tables.

    Raises:
        Refused: the tables belong to a PanDA installation, which has feeds of its own.
    """
    if migrate.check(context.database) != migrate.STANDALONE:
        raise Refused(
            f"the feed {feed} would write PanDA's own tables",
            repr(context.database),
            "alongside PanDA its configurator fills them; only replicas and quotas are fed here",
        )


def run_import(
    context: CycleContext,
    feed: str,
    obtained: Mapping[str, DocumentResult],
    plan: Callable[[sa.Connection], Plan],
    limits: Limits,
) -> CycleReport:
    """Write what ``plan`` builds from the documents, and record the changes.

    Raises:
        FeedAlarm: a document, or the whole import, was refused; everything usable was written.
    """
    refused = [one.refused for one in obtained.values() if one.refused is not None]
    feed_import = _Import(context, feed, obtained)
    try:
        # rows are compared between statements, which may take the rest of the cycle's time
        with context.transaction(idle_within_s=max(context.left_s, IDLE_WITHIN_S)) as connection:
            fault_points.reach("before_write")
            changes = feed_import.write(connection, plan(connection), limits)
            run = feed_import.run("partial" if refused else "done", changes)
            feed_import.close(connection, run, changes)
    except DocumentRefused as fault:
        refused.append(fault)
        run = feed_import.refused(fault)
    feed_import.emit(run)
    if refused:
        _log.error("ALARM: feed %s", feed, extra={"fields": {"refused": [str(one) for one in refused]}})
        first = refused[0]
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise FeedAlarm(f"ALARM: feed {feed}: {first.code}: {first.what}{more}", first.where, first.remedy)
    return CycleReport(_counts(run), notes=feed_import.notes)


class _Import:
    """One import: its transaction, its notes and its report."""

    def __init__(self, context: CycleContext, feed: str, obtained: Mapping[str, DocumentResult]) -> None:
        self._context, self._feed, self._obtained = context, feed, obtained
        self._left_out: dict[str, dict[str, int]] = {}
        self._examples: dict[tuple[str, str], str] = {}
        self._not_written: Mapping[str, str] = {}
        self._held_back: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return self._context.writes

    def write(self, connection: sa.Connection, plan: Plan, limits: Limits) -> list[TableChanges]:
        self._not_written = plan.not_written
        self._note_dropped_rows(plan, limits)
        names = self._context.database.names
        all_changes: list[TableChanges] = []
        for planned in plan.tables:
            before = table_writing.read_rows(connection, names, planned.table, planned.firsts)
            changes = compare(before, planned.table, removes=planned.removes)
            _guard(changes, len(before), limits.max_shrink)
            if self.writes:
                table_writing.write_changes(connection, names, planned.table, changes)
                if planned.touched is not None:
                    table_writing.touch(connection, names, planned.table.table, planned.touched, self._context.now)
            all_changes.append(changes)
            self._context.check()
        all_changes += plan.afterwards(connection, self.writes)
        forgotten = [self._forget(connection, forget, limits) for forget in plan.forgets]
        return all_changes + [changes for changes in forgotten if changes is not None]

    def _forget(self, connection: sa.Connection, forget: Forget, limits: Limits) -> TableChanges | None:
        """Remove outdated rows, unless a wrong clock may be the cause; None when nothing is removed."""
        names, before = self._context.database.names, forget.before
        due, there_are = table_writing.count_older(
            connection, names, forget.table, forget.column, before, forget.retained_keys
        )
        hold_reason = held_back(due, there_are, limits.max_shrink, self._context.clock_faults)
        if hold_reason:
            fields = {"feed": self._feed, "table": forget.table, "due": due, "there_are": there_are, "why": hold_reason}
            _log.error("ALARM: what is too old is not removed", extra={"fields": fields})
            self._held_back += (f"{due} of {there_are} rows of {forget.table} are too old and stay: {hold_reason}",)
        if hold_reason or not due or not self.writes:
            return None
        removed = table_writing.remove_older(
            connection, names, forget.table, forget.column, before, forget.retained_keys
        )
        return TableChanges(forget.table, tuple(RowChange((name,), "gone", {}) for name in removed), 0)

    def close(self, connection: sa.Connection, run: FeedRun, changes: Sequence[TableChanges]) -> None:
        if not self.writes:
            return
        for obtained in self._obtained.values():
            if obtained.good is not None:
                feed_documents.keep_document(connection, self._feed, obtained.good, self._context.now)
        feed_runs.write_run(connection, run, changes)
        fault_points.reach("after_write_before_commit")

    def refused(self, fault: DocumentRefused) -> FeedRun:
        """Record that the whole import was refused."""
        about = {"document": fault.where, "outcome": "refused", "code": fault.code, "detail": fault.what}
        run = self.run("refused", [], about)
        if self.writes:
            with self._context.writing() as connection:
                feed_runs.write_run(connection, run)
        return run

    def run(self, outcome: str, changes: Sequence[TableChanges], *further_documents: Mapping[str, Any]) -> FeedRun:
        documents = [*(one.output() for one in self._obtained.values()), *further_documents]
        totals: dict[str, dict[str, Any]] = {}
        for table_changes in changes:
            totals[table_changes.table] = _sum(totals.get(table_changes.table), table_changes.counts())
        by_hand = self._context.request.by_hand
        return FeedRun(self._feed, by_hand, self._context.now, outcome, documents, totals, self._left_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for operators: dropped rows, tables that could not be written, and rows held back."""
        left = (
            f"left out {n} x {code} of {name}, such as {self._examples[name, code]}"
            for name, codes in self._left_out.items()
            for code, n in codes.items()
        )
        missing = (f"{table} was not written: {why}" for table, why in self._not_written.items())
        return (*left, *missing, *self._held_back)

    def emit(self, run: FeedRun) -> None:
        emit = self._context.request.emit
        if emit is None:
            return
        for document in run.documents:
            if document["outcome"] != "kept":
                emit({"feed": self._feed, **document})
        for table, numbers in run.changes.items():
            emit({"feed": self._feed, "table": table, "dry_run": not self.writes, **numbers})

    def _note_dropped_rows(self, plan: Plan, limits: Limits) -> None:
        all_rows = [*plan.dropped_rows, *(row for table in plan.tables for row in table.table.dropped_rows)]
        distinct = {(row.source, row.identifier, row.code): row for row in all_rows}
        for name in sorted({row.source for row in distinct.values()}):
            of_document = [row for row in distinct.values() if row.source == name]
            self._left_out[name] = reasons(of_document)
            self._examples |= {(name, row.code): f"{row.identifier}: {row.detail}" for row in reversed(of_document)}
            obtained = self._obtained.get(name)
            if obtained is not None and obtained.good is not None:
                check_dropped_rows(name, of_document, obtained.good.records, limits.max_left_out)


def held_back(due: int, there_are: int, max_shrink: float, faults: Sequence[ClockFault]) -> str:
    """Return why outdated rows must not be removed; empty when they may be.

    Args:
        due: how many rows are too old.
        there_are: how many rows the table has.
        max_shrink: share of the rows that one run may remove.
        faults: contradictions between the clocks.
    """
    if due and faults:
        return f"clocks contradict one another: {faults[0].code} by {faults[0].seconds:+.0f} s"
    if there_are >= _FEWEST_GUARDED and due > max_shrink * there_are:
        return f"more than {max_shrink:.0%} at once; see the clocks, or import once with --allow-shrink"
    return ""


def _guard(changes: TableChanges, before: int, max_shrink: float) -> None:
    gone = len(changes.keys("gone"))
    if before >= _FEWEST_GUARDED and gone > max_shrink * before:
        raise DocumentRefused(
            "shrunk",
            f"{gone} of {before} rows would go, more than {max_shrink:.0%}",
            changes.table,
            "see the documents; if they are right, import them once with --allow-shrink",
        )


def _sum(total: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    if total is None:
        return other
    fields = {
        name: total["fields"].get(name, 0) + other["fields"].get(name, 0) for name in total["fields"] | other["fields"]
    }
    return {key: total[key] + other[key] for key in other if key != "fields"} | {"fields": fields}


def _counts(run: FeedRun) -> dict[str, int]:
    kinds = ("added", "changed", "gone", "unchanged")
    counts = {kind: sum(int(numbers[kind]) for numbers in run.changes.values()) for kind in kinds}
    dropped_rows = sum(number for codes in run.dropped_rows.values() for number in codes.values())
    return counts | {"left_out": dropped_rows, "documents": len(run.documents)}
