"""Copy PanDA's tables into the mirror, table by table: each as of its own instant, and in its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
import sqlalchemy as sa

from broker.alongside.model.copied_values import BadCopiedValueError, converted, converter, digest
from broker.alongside.model.panda_reader import PandaReader, ReadFailed, columns_statement
from broker.alongside.statements import copy_records, copy_writing
from broker.alongside.statements.copied_tables import grid_copies, task_copies
from broker.alongside.statements.table_copy import Slice, TableCopy, binds_of, columns_read, instants, select
from broker.errors import Refused
from broker.snapshot.source import AnySource
from broker.store.connection.database import Database
from broker.store.schema.migrate import MIRRORED, check

GRID, TASKS = "grid", "tasks"


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a table in the form that columns of the mirror take.

    Attributes:
        columns: of the rows.
        rows: their values.
        lacking: columns that PanDA's table does not have.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    lacking: tuple[str, ...]


@dataclass
class PartReport:
    """The result of copying one part.

    Attributes:
        claimed: False if the part is not due, or another process copies it.
        copied: names of the copies that now match PanDA's tables.
        failed: why the others do not, by name.
    """

    claimed: bool
    copied: list[str]
    failed: dict[str, str]


class Mirror:
    """Copies PanDA's tables.

    Args:
        database: ours, in mode ``mirrored``.
        reader: of PanDA's database.
        clock: the time now (aware).
        sources: of other distributions that rules name.
        present: columns of PanDA's tables that are known already; further ones are added to it.
    """

    def __init__(
        self,
        database: Database,
        reader: PandaReader,
        clock: Callable[[], datetime],
        sources: Sequence[AnySource] = (),
        present: dict[str, frozenset[str]] | None = None,
    ) -> None:
        mode = check(database)
        if mode != MIRRORED:
            raise Refused(
                f"the database is installed in mode {mode}", repr(database), "make one by `broker db init --mirrored`"
            )
        self.database, self.reader, self.clock = database, reader, clock
        self._sources = tuple(sources)
        self._present = {} if present is None else present

    def copy_grid(self, every: timedelta) -> PartReport:
        """Copy the tables that snapshots are made from."""
        return self.copy_part(GRID, every, grid_copies(self._sources))

    def copy_tasks(self, every: timedelta) -> PartReport:
        """Copy the tasks that a brokerage reads, and their datasets."""
        return self.copy_part(TASKS, every, task_copies())

    def copy_part(self, part: str, every: timedelta, copies: Iterable[TableCopy]) -> PartReport:
        """Make copies, one after the other; one that fails stays unchanged and does not stop the others."""
        report = PartReport(self.claim(part, every), [], {})
        if not report.claimed:
            return report
        try:
            for copy in copies:
                self.copy(part, copy, report)
        finally:
            self.release(part)
        return report

    def claim(self, part: str, every: timedelta) -> bool:
        """Claim a part; return whether this process is to copy it now."""
        with self.database.begin() as connection:
            return copy_records.claim(connection, part, self.clock(), every)

    def release(self, part: str) -> None:
        """Let another process copy a part."""
        with self.database.begin() as connection:
            copy_records.extend(connection, part, self.clock())

    def copy(self, part: str, copy: TableCopy, report: PartReport, known: Mapping[str, datetime] | None = None) -> None:
        """Make one copy and record the outcome.

        Args:
            part: the part that it belongs to.
            copy: the copy to make.
            report: updated with the outcome.
            known: instants that its conditions name, besides those that are always known.
        """
        started = self.clock()
        try:
            copied = self.read(copy, {**instants(started), **(known or {})})
            self._write(part, copy, copied, started)
        except (ReadFailed, BadCopiedValueError, sa.exc.DBAPIError, psycopg.Error) as error:
            # a column may be gone: it is looked up again before the next attempt
            self._present.pop(copy.table, None)
            report.failed[copy.name] = message = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            with self.database.begin() as connection:
                copy_records.note_failed(connection, copy.name, part, started, message)
            return
        report.copied.append(copy.name)

    def read(self, copy: TableCopy, known: Mapping[str, Any]) -> CopiedRows:
        """Read the current rows of a copy from PanDA's database; none if PanDA does not have the table.

        Raises:
            ReadFailed: a statement gave no answer.
            BadCopiedValueError: a value does not fit its column.
        """
        present = self._columns(copy.table)
        columns = (*copy.columns, *((copy_writing.COUNTED,) if copy.counted else ()))
        shape = copy_writing.shape_of(copy)
        converters = [converter(name, shape.columns[name], in_key=name in shape.key) for name in columns]
        rows: list[tuple[Any, ...]] = []
        for slice_ in copy.slices if present else ():
            rows += converted(self._rows(copy, slice_, columns, present, known), converters)
        return CopiedRows(columns, rows, tuple(name for name in copy.columns if name not in present))

    def _rows(
        self, copy: TableCopy, slice_: Slice, columns: Sequence[str], present: frozenset[str], known: Mapping[str, Any]
    ) -> Iterable[tuple[Any, ...]]:
        """The rows of a slice with all columns of the copy."""
        statement = select(copy, slice_, self.reader.schemas, present)
        answer = self.reader.rows(statement, binds_of(statement, known))
        read = (*columns_read(copy, slice_, present), *((copy_writing.COUNTED,) if copy.counted else ()))
        index_of = {name: index for index, name in enumerate(read)}
        fixed = {name: known[instant] for name, instant in slice_.instants.items()}
        for row in answer:
            yield tuple(row[index_of[name]] if name in index_of else fixed.get(name) for name in columns)

    def _columns(self, table: str) -> frozenset[str]:
        if table not in self._present:
            owner = copy_writing.owner_of(self.reader.schemas, table)
            rows = self.reader.rows(*columns_statement(self.reader.backend, owner, table))
            self._present[table] = frozenset(str(row[0]).lower() for row in rows)
        return self._present[table]

    def _write(self, part: str, copy: TableCopy, copied: CopiedRows, started: datetime) -> None:
        names, sha256 = self.database.names, digest(copied.rows)
        with self.database.begin() as connection:
            copy_writing.allow_writing(connection, copy.name)
            if copy.counted:
                copy_writing.make_counted_table(connection, names, copy)
            # rows that are kept for a time may have to go although PanDA's are unchanged
            unchanged = copy.retention_column is None and copy_records.digest_of(connection, copy.name) == sha256
            if not unchanged:
                copy_writing.stage(connection, names, copy, copied.columns, copied.rows)
                copy_writing.replace_rows(connection, names, copy, copied.columns, started)
            ended = self.clock()
            copy_records.note_read(
                connection,
                copy.name,
                part,
                started,
                rows=len(copied.rows),
                read_s=(ended - started).total_seconds(),
                sha256=sha256,
                lacking=copied.lacking,
            )
            copy_records.extend(connection, part, ended + copy_records.CLAIM)
