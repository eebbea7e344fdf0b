"""Reading the raw sources of a snapshot from PostgreSQL, in the caller's read-only transaction.

The sources define what is read (``broker.snapshot.source_list``). JSON columns are read as text and parsed by the
snapshot builder, which knows what to do with a bad document.

Rows of tables are reused for as long as the server reports that they are unchanged. PanDA's tables cannot get triggers,
and many have no timestamp that every writer maintains. So the server hashes the rows that would be read, a fraction of
the work of sending and converting them; the hash is of the same instant as everything else that the transaction reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa

from broker.domain.instants import aware, naive
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.source import AnySource, JobStatistics, Read, StatementRead, TableRead
from broker.store.connection.array_transfer import integers_of
from broker.store.connection.panda_columns import ColumnFault, ColumnsChanged, PandaColumns
from broker.store.connection.tables import JOB_TABLES, TableCatalogue, counted_table, quoted
from broker.store.snapshots.feed_documents import fed_at
from broker.store.summaries.worker_node_summaries import refreshed_for

#: The rows of a statement as one number, independent of their order: the sum of the 64-bit hashes of their texts.
_FINGERPRINT = "SELECT count(*), sum(hashtextextended(x::text, 0)) FROM ({rows}) AS x"

Fingerprint = tuple[int, int | None]


@dataclass(frozen=True)
class CachedRows:
    """The rows of a table with the time of the newest.

    Attributes:
        fingerprint: count and hash that the server reported for them.
        rows: the rows as they were read.
        newest: the newest of their timestamps; None without any.
    """

    fingerprint: Fingerprint
    rows: Rows = field(repr=False)
    newest: datetime | None


@dataclass(frozen=True)
class CachedPart:
    """A source as it is stored: its digest and its encoded form."""

    source: RawSource = field(repr=False)
    part: tuple[str, bytes] = field(repr=False)

    def is_of(self, source: RawSource) -> bool:
        """Whether ``source`` has the same rows with the same age."""
        mine, other = self.source.tables, source.tables
        same = mine.keys() == other.keys() and all(mine[name] is other[name] for name in mine)
        return same and self.source.newest == source.newest


@dataclass
class ReadingCache:
    """The last reading of each statement. Threads of several agents may share it, because entries are replaced whole.

    Attributes:
        rows: rows by the statement that reads them.
        parts: encoded sources by name.
    """

    rows: dict[str, CachedRows] = field(default_factory=dict)
    parts: dict[str, CachedPart] = field(default_factory=dict)


def fingerprint(connection: sa.Connection, statement: str) -> Fingerprint:
    """The number of rows of a statement, and a hash of their contents."""
    count, total = connection.exec_driver_sql(_FINGERPRINT.format(rows=statement)).one()
    return int(count), None if total is None else int(total)


COPY_IS_CURRENT = timedelta(minutes=3)
"""Age of a copy of a PanDA table above which its source counts as being as old as the copy."""


@dataclass(frozen=True)
class UnreadSource:
    """Why a source could not be read; ``state`` is ``failed``, or ``changed`` if PanDA's schema differs."""

    state: Literal["failed", "changed"]
    detail: str


def columns_of(read: Read) -> tuple[PandaColumns, ...]:
    """The columns of PanDA's tables that a read uses; tables of ours are not included."""
    if isinstance(read, TableRead):
        own = "." in read.table
        return () if own else (PandaColumns(read.table, read.columns, read.optional, read.table_optional),)
    return tuple(PandaColumns(table, columns, read.optional) for table, columns in read.tables.values())


def source_faults(catalogue: TableCatalogue, source: AnySource, statistics: JobStatistics) -> tuple[ColumnFault, ...]:
    """The faults of PanDA's tables that prevent a source from being read; empty if it can be read."""
    wanted = [columns for read in source.reads_with(statistics) for columns in columns_of(read)]
    return tuple(dict.fromkeys(fault for columns in wanted for fault in catalogue.faults(columns)))


@dataclass(frozen=True)
class SourceReader:
    """Reads sources at one instant.

    Attributes:
        connection: read-only REPEATABLE READ, so that all sources are of one instant.
        catalogue: the tables of the database.
        now: the instant (aware).
        job_statistics: ``live`` counts the job tables, ``panda`` reads PanDA's statistics tables.
        cache: earlier readings; unchanged rows of a table are not read again.
        copied_at: if PanDA's tables are copies, when each was read there (aware), by table; otherwise None.
    """

    connection: sa.Connection
    catalogue: TableCatalogue
    now: datetime
    job_statistics: JobStatistics = "live"
    cache: ReadingCache = field(default_factory=ReadingCache)
    copied_at: Mapping[str, datetime | None] | None = None

    def read(self, source: AnySource) -> RawSource:
        """Read the rows of a source, with the time of the newest.

        Raises:
            ColumnsChanged: a required column is missing or has another type.
        """
        if faults := source_faults(self.catalogue, source, self.job_statistics):
            raise ColumnsChanged(faults)
        readings = {read.name: self._rows(read) for read in source.reads_with(self.job_statistics)}
        tables = {name: rows for name, (rows, _) in readings.items()}
        if source.aged_by is not None:
            return RawSource(source.name, tables, refreshed_for(self.connection, source.aged_by))
        stamps = (newest for _, newest in readings.values() if newest is not None)
        return RawSource(source.name, tables, max(stamps, default=None))

    def try_reading(self, source: AnySource) -> tuple[RawSource, UnreadSource | None]:
        """Read the rows of a source, or return why they could not be read where a failure must not stop the cycle."""
        if self.copied_at is not None:
            copied = [self.copied_at.get(name) for name in self._copies_of(source)]
            if None in copied:
                uncopied = "its tables have not been copied from PanDA's database yet"
                return RawSource(source.name, {}), UnreadSource("failed", uncopied)
            raw, fault = replace(self, copied_at=None).try_reading(source)
            oldest = min((moment for moment in copied if moment is not None), default=None)
            # the time of each copy would make every snapshot different, so it counts only if copying has stopped
            current = oldest is None or self.now - oldest <= COPY_IS_CURRENT
            return (raw if current else _no_younger(raw, oldest)), fault
        if not source.may_fail:
            try:
                return self.read(source), None
            except ColumnsChanged as changed:
                return RawSource(source.name, {}), UnreadSource("changed", changed.what)
        savepoint = self.connection.begin_nested()
        try:
            raw = self.read(source)
            savepoint.commit()
        except ColumnsChanged as changed:
            savepoint.rollback()
            return RawSource(source.name, {}), UnreadSource("changed", changed.what)
        except sa.exc.DBAPIError as error:
            if error.connection_invalidated:
                raise
            savepoint.rollback()
            detail = f"{type(error.orig).__name__}: {str(error.orig).splitlines()[0]}"[:200]
            return RawSource(source.name, {}), UnreadSource("failed", detail)
        return raw, None

    def _copies_of(self, source: AnySource) -> list[str]:
        """The names of the copied tables that a source is read from; tables of ours are not included."""
        wanted = [columns for read in source.reads_with(self.job_statistics) for columns in columns_of(read)]
        return [
            counted_table(columns.table, columns.columns) if columns.table in JOB_TABLES else columns.table
            for columns in wanted
        ]

    def _rows(self, read: Read) -> tuple[Rows, datetime | None]:
        """The rows of one table, and the time of the newest of them."""
        if isinstance(read, TableRead):
            return self._rows_of_table(read)
        result = self.connection.execute(sa.text(self._filled(read, read.statement)), self._instants(read))
        rows: Iterable[tuple[Any, ...]] = map(tuple, result.all())
        if read.number_lists:
            lists = [name in read.number_lists for name in read.columns_stored]
            rows = (
                tuple(_rising(value) if at else value for value, at in zip(row, lists, strict=True)) for row in rows
            )
        newest = read.newest and self.connection.scalar(sa.text(self._filled(read, read.newest)))
        return Rows(read.columns_stored, tuple(rows)), _newest([newest])

    def _rows_of_table(self, read: TableRead) -> tuple[Rows, datetime | None]:
        statement = self._select(read)
        order = _all_of(read.columns)
        now = fingerprint(self.connection, statement)
        entry = self.cache.rows.get(statement)
        if entry is None or entry.fingerprint != now:
            values = self.connection.exec_driver_sql(f"{statement} ORDER BY {order}").all()
            rows = Rows(read.columns_stored, tuple(tuple(row) for row in values))
            newest = None if read.stamp is None else _newest(rows.column(read.stamp))
            entry = self.cache.rows[statement] = CachedRows(now, rows, newest)
        return entry.rows, entry.newest

    def _select(self, read: TableRead) -> str:
        columns = ", ".join(f'r."{name}"::text' if name in read.as_text else f'r."{name}"' for name in read.columns)
        where = f" WHERE {read.where}" if read.where else ""
        own = "." in read.table
        source = quoted_table(read.table) if own else self.catalogue.source(read.table, read.columns)
        # names come from the sources; S608 sees only that text is concatenated
        if read.counted:
            return f"SELECT {columns}, count(*) FROM {source} AS r{where} GROUP BY {_all_of(read.columns)}"  # noqa: S608
        return f"SELECT {columns} FROM {source} AS r{where}"  # noqa: S608

    def _filled(self, read: StatementRead, statement: str) -> str:
        tables = {key: self.catalogue.source(table, columns) for key, (table, columns) in read.tables.items()}
        return statement.format(**tables)

    def _instants(self, read: StatementRead) -> dict[str, Any]:
        if read.window is None:
            return {}
        moment = naive(self.now)
        return {"now": moment, "since": moment - read.window}


def read_sources(
    reader: SourceReader, sources: Iterable[AnySource], tick: Callable[[], None] = lambda: None
) -> tuple[dict[str, RawSource], dict[str, UnreadSource]]:
    """Read sources; return their rows by name, and the reasons for those that could not be read.

    Replicas are read with the work; here they have only the age that a feed gives them.

    Args:
        reader: the reader to use.
        sources: the sources to read.
        tick: called after each source, for time budgets.
    """
    raw_sources: dict[str, RawSource] = {}
    failures: dict[str, UnreadSource] = {}
    for source in sources:
        raw_sources[source.name], fault = reader.try_reading(source)
        failures |= {} if fault is None else {source.name: fault}
        tick()
    return aged_by_feeds(reader.connection, raw_sources), failures


def aged_by_feeds(connection: sa.Connection, sources: Mapping[str, RawSource]) -> dict[str, RawSource]:
    """The sources, each no younger than the oldest feed document that it was built from."""
    fed = fed_at(connection)
    return {name: _no_younger(source, fed.get(name)) for name, source in sources.items()}


def _no_younger(source: RawSource, fed: datetime | None) -> RawSource:
    if fed is None:
        return source
    return replace(source, newest=fed if source.newest is None else min(source.newest, fed))


def quoted_table(name: str) -> str:
    """``schema.table`` quoted for SQL."""
    return ".".join(quoted(part) for part in name.split(".", 1))


def _all_of(columns: tuple[str, ...]) -> str:
    # ordered by every column, so that equal content gives equal rows in equal order, and the same digest
    return ", ".join(str(position) for position in range(1, len(columns) + 1))


def _rising(numbers: bytes | None) -> str | None:
    """An array of numbers in ``array_send`` format as a sorted text, independent of the order of reading."""
    return None if numbers is None else ",".join(map(str, np.sort(integers_of([bytes(numbers)])).tolist()))


def _newest(stamps: Iterable[Any]) -> datetime | None:
    return max((aware(stamp) for stamp in stamps if isinstance(stamp, datetime)), default=None)
