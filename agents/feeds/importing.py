"""Writing what a feed brings: all tables in one transaction under the lease, with what changed, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from agents.feeds.obtaining import Obtained
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
    """Something of a feed was refused; what is on record of it stays."""


@dataclass(frozen=True)
class Planned:
    """A table to be written.

    Attributes:
        table: the rows it is to have.
        removes: whether rows that the document does not give go.
        touched: keys of the rows that get the time of the cycle in ``last_update``.
        firsts: first key columns of the rows that are looked at; None for all rows.
    """

    table: MappedTable
    removes: bool = True
    touched: Sequence[str] | None = None
    firsts: Sequence[str] | None = None


@dataclass(frozen=True)
class Forget:
    """Rows that go because nothing has spoken of them for too long.

    Attributes:
        table: where they are.
        column: with the time at which they were spoken of last.
        before: all whose time is before this one go (aware).
        kept: first parts of keys of rows that stay.
    """

    table: str
    column: str
    before: datetime
    kept: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """What a feed wants to write.

    Attributes:
        tables: in the order of writing.
        afterwards: what follows; told whether it may write, it gives changes.
        forgets: what is too old after that.
        not_written: tables that cannot be made, and why.
        dropped_rows: what was left out beside that of the tables.
    """

    tables: Sequence[Planned]
    afterwards: Callable[[sa.Connection, bool], Iterable[TableChanges]] = lambda connection, writes: ()
    not_written: Mapping[str, str] = field(default_factory=dict)
    dropped_rows: Sequence[DroppedRow] = ()
    forgets: Sequence[Forget] = ()


@dataclass(frozen=True)
class Limits:
    """How much may be gone or unusable.

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
    obtained: Mapping[str, Obtained],
    plan: Callable[[sa.Connection], Plan],
    limits: Limits,
) -> CycleReport:
    """Write what ``plan`` makes of the documents, and keep what changed.

    Raises:
        FeedAlarm: a document was refused, or so was everything; what could be used was written.
    """
    refused = [one.refused for one in obtained.values() if one.refused is not None]
    done = _Import(context, feed, obtained)
    try:
        # rows are compared between the statements: they may take what is left of the cycle's time
        with context.transaction(idle_within_s=max(context.left_s, IDLE_WITHIN_S)) as connection:
            fault_points.reach("before_write")
            changes = done.write(connection, plan(connection), limits)
            run = done.run("partial" if refused else "done", changes)
            done.close(connection, run, changes)
    except DocumentRefused as fault:
        refused.append(fault)
        run = done.refused(fault)
    done.emit(run)
    if refused:
        _log.error("ALARM: feed %s", feed, extra={"fields": {"refused": [str(one) for one in refused]}})
        first = refused[0]
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise FeedAlarm(f"ALARM: feed {feed}: {first.code}: {first.what}{more}", first.where, first.remedy)
    return CycleReport(_counts(run), notes=done.notes)


class _Import:
    """One import: its transaction, and what is told of it."""

    def __init__(self, context: CycleContext, feed: str, obtained: Mapping[str, Obtained]) -> None:
        self._context, self._feed, self._obtained = context, feed, obtained
        self._left_out: dict[str, dict[str, int]] = {}
        self._such_as: dict[tuple[str, str], str] = {}
        self._not_written: Mapping[str, str] = {}
        self._held_back: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return self._context.writes

    def write(self, connection: sa.Connection, plan: Plan, limits: Limits) -> list[TableChanges]:
        self._not_written = plan.not_written
        self._note_dropped_rows(plan, limits)
        names = self._context.database.names
        found: list[TableChanges] = []
        for one in plan.tables:
            before = table_writing.read_rows(connection, names, one.table, one.firsts)
            changes = compare(before, one.table, removes=one.removes)
            _guard(changes, len(before), limits.max_shrink)
            if self.writes:
                table_writing.write_changes(connection, names, one.table, changes)
                if one.touched is not None:
                    table_writing.touch(connection, names, one.table.table, one.touched, self._context.now)
            found.append(changes)
            self._context.check()
        found += plan.afterwards(connection, self.writes)
        forgotten = [self._forget(connection, one, limits) for one in plan.forgets]
        return found + [changes for changes in forgotten if changes is not None]

    def _forget(self, connection: sa.Connection, one: Forget, limits: Limits) -> TableChanges | None:
        """Remove what is too old, unless a wrong clock may be what makes it so; None when nothing goes."""
        names, before = self._context.database.names, one.before
        due, there_are = table_writing.count_older(connection, names, one.table, one.column, before, one.kept)
        held = held_back(due, there_are, limits.max_shrink, self._context.clock_faults)
        if held:
            fields = {"feed": self._feed, "table": one.table, "due": due, "there_are": there_are, "why": held}
            _log.error("ALARM: what is too old is not removed", extra={"fields": fields})
            self._held_back += (f"{due} of {there_are} rows of {one.table} are too old and stay: {held}",)
        if held or not due or not self.writes:
            return None
        gone = table_writing.remove_older(connection, names, one.table, one.column, before, one.kept)
        return TableChanges(one.table, tuple(RowChange((name,), "gone", {}) for name in gone), 0)

    def close(self, connection: sa.Connection, run: FeedRun, changes: Sequence[TableChanges]) -> None:
        if not self.writes:
            return
        for one in self._obtained.values():
            if one.good is not None:
                feed_documents.keep_document(connection, self._feed, one.good, self._context.now)
        feed_runs.write_run(connection, run, changes)
        fault_points.reach("after_write_before_commit")

    def refused(self, fault: DocumentRefused) -> FeedRun:
        """Note that everything was refused."""
        about = {"document": fault.where, "outcome": "refused", "code": fault.code, "detail": fault.what}
        run = self.run("refused", [], about)
        if self.writes:
            with self._context.writing() as connection:
                feed_runs.write_run(connection, run)
        return run

    def run(self, outcome: str, changes: Sequence[TableChanges], *more: Mapping[str, Any]) -> FeedRun:
        documents = [*(one.output() for one in self._obtained.values()), *more]
        counted: dict[str, dict[str, Any]] = {}
        for one in changes:
            counted[one.table] = _sum(counted.get(one.table), one.counts())
        by_hand = self._context.request.by_hand
        return FeedRun(self._feed, by_hand, self._context.now, outcome, documents, counted, self._left_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for operators: what was left out, and tables that could not be made."""
        left = (
            f"left out {n} x {code} of {name}, such as {self._such_as[name, code]}"
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
        listed = [*plan.dropped_rows, *(one for table in plan.tables for one in table.table.dropped_rows)]
        found = {(one.source, one.identifier, one.code): one for one in listed}
        for name in sorted({one.source for one in found.values()}):
            of_document = [one for one in found.values() if one.source == name]
            self._left_out[name] = reasons(of_document)
            self._such_as |= {(name, one.code): f"{one.identifier}: {one.detail}" for one in reversed(of_document)}
            about = self._obtained.get(name)
            if about is not None and about.good is not None:
                check_dropped_rows(name, of_document, about.good.records, limits.max_left_out)


def held_back(due: int, there_are: int, max_shrink: float, faults: Sequence[ClockFault]) -> str:
    """Why rows that are too old must not go; empty when they may.

    Args:
        due: how many are too old.
        there_are: how many rows the table has.
        max_shrink: share of them that may go in one run.
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


def _sum(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    if one is None:
        return other
    fields = {
        name: one["fields"].get(name, 0) + other["fields"].get(name, 0) for name in one["fields"] | other["fields"]
    }
    return {key: one[key] + other[key] for key in other if key != "fields"} | {"fields": fields}


def _counts(run: FeedRun) -> dict[str, int]:
    kinds = ("added", "changed", "gone", "unchanged")
    counts = {kind: sum(int(numbers[kind]) for numbers in run.changes.values()) for kind in kinds}
    dropped_rows = sum(number for codes in run.dropped_rows.values() for number in codes.values())
    return counts | {"left_out": dropped_rows, "documents": len(run.documents)}
