"""Which tables and columns a database really has, and how to read those that it lacks as NULL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from broker.store.connection.names import OWN_SCHEMA, Names, quoted
from broker.store.connection.panda_columns import ColumnFault, ColumnsChanged, PandaColumns, faults_of
from broker.store.schema.schema_files import OWN, PANDA, TableShape, declared_tables

#: Tables with a row a job; in mode ``mirrored`` only counts of them are kept.
JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")

# one row for each table: a database has some 1,500 columns
_READ_COLUMNS = """
SELECT n.nspname, c.relname,
    array_agg(CAST(a.attname AS text) ORDER BY a.attnum),
    array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND n.nspname = ANY(:schemas)
GROUP BY n.nspname, c.relname
ORDER BY n.nspname, c.relname
"""


# of a mirror: what PanDA's own tables lacked when their copies were made
_READ_LACKING = "SELECT name, lacking FROM broker.mirror_copies WHERE lacking <> '{}'"


def counted_table(table: str, columns: Iterable[str]) -> str:
    """The table of a mirror in which rows of ``table`` that are equal in ``columns`` are one, with their number.

    The number stands in its column ``counted``. Only an installation of mode ``mirrored`` has such tables.
    """
    return f"counted_{table}_{hashlib.sha256(','.join(columns).encode()).hexdigest()[:8]}"


def read_columns(connection: sa.Connection, names: Names) -> dict[str, dict[str, str]]:
    """The columns of every table of PanDA's in this database: table to (column to SQL type)."""
    found: dict[str, dict[str, str]] = {}
    rows = connection.execute(sa.text(_READ_COLUMNS), {"schemas": [names.panda, names.meta]})
    for schema, table, columns, sql_types in rows:
        if schema == names.schema_of(table):
            found.setdefault(table, {}).update(zip(columns, sql_types, strict=True))
    return found


def read_own_columns(connection: sa.Connection) -> dict[str, dict[str, str]]:
    """The columns of every table of ours in this database: table to (column to SQL type)."""
    rows = connection.execute(sa.text(_READ_COLUMNS), {"schemas": [OWN_SCHEMA]})
    return {table: dict(zip(columns, sql_types, strict=True)) for _, table, columns, sql_types in rows}


@dataclass(frozen=True)
class MissingParts:
    """What a PanDA database lacks of the tables and columns that the broker reads.

    Attributes:
        tables: missing tables.
        columns: missing columns of the tables that are there.
    """

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, wanted: Mapping[str, TableShape], found: Mapping[str, Mapping[str, str]]) -> MissingParts:
        """Compares what is declared with what is there."""
        columns = {
            name: tuple(column for column in shape.columns if column not in found[name])
            for name, shape in wanted.items()
            if name in found
        }
        return cls(
            tuple(name for name in wanted if name not in found),
            {name: missing for name, missing in columns.items() if missing},
        )

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns)


class TableCatalogue:
    """The tables of one database, read once per connection or service.

    Args:
        names: the schema names.
        found: table of PanDA's to its columns and their types, from :func:`read_columns`.
    """

    def __init__(self, names: Names, found: Mapping[str, Mapping[str, str]]) -> None:
        self.names = names
        self._found = found

    @classmethod
    def read(cls, connection: sa.Connection, names: Names) -> TableCatalogue:
        """Reads the catalogue of the database; a copy has the columns that PanDA's table has."""
        found = read_columns(connection, names)
        if connection.scalar(sa.text("SELECT to_regclass('broker.mirror_copies')")) is not None:
            for name, lacking in connection.execute(sa.text(_READ_LACKING)):
                found[name] = {column: kind for column, kind in found.get(name, {}).items() if column not in lacking}
        return cls(names, found)

    def columns_present(self, table: str) -> frozenset[str]:
        """The columns that ``table`` has; empty when there is no such table."""
        return frozenset(self._found.get(table, ()))

    def select_list(self, table: str, columns: Iterable[str], alias: str = "") -> str:
        """SQL naming ``columns`` of ``table`` in order, with typed NULLs for those that are missing.

        Args:
            table: one of PanDA's tables.
            columns: the columns wanted; those the schema files do not declare come back as text NULLs.
            alias: name of the table in the query; empty for none.
        """
        present = self.columns_present(table)
        shape = self._declared.get(table)
        declared = shape.columns if shape else {}
        prefix = f"{quoted(alias)}." if alias else ""
        return ", ".join(
            f"{prefix}{quoted(column)}"
            if column in present
            else f"CAST(NULL AS {declared.get(column, 'text')}) AS {quoted(column)}"
            for column in columns
        )

    def source(self, table: str, columns: Iterable[str]) -> str:
        """SQL for a FROM clause: ``table`` with exactly ``columns``, even where the database lacks it.

        A missing table is an empty one. Where only counts of its rows are kept, each row comes as often as it counts.
        """
        wanted = tuple(columns)
        counted = counted_table(table, wanted)
        if counted in self._found:
            listed = ", ".join(quoted(column) for column in wanted)
            return f"(SELECT {listed} FROM {self.names.table(counted)}, generate_series(1, counted))"  # noqa: S608 - quoted names
        if self.columns_present(table):
            return f"(SELECT {self.select_list(table, wanted)} FROM {self.names.table(table)})"  # noqa: S608 - quoted names
        return f"(SELECT {self.select_list(table, wanted)} WHERE false)"

    def needed(self, wanted: PandaColumns) -> str:
        """SQL for a FROM clause like :meth:`source`, for rows that decisions are made from.

        Raises:
            ColumnsChanged: a needed column is not there, or of another type.
        """
        faults = self.faults(wanted)
        if faults:
            raise ColumnsChanged(faults)
        return self.source(wanted.table, wanted.columns)

    def faults(self, wanted: PandaColumns) -> tuple[ColumnFault, ...]:
        """What of the needed columns cannot be read."""
        found = self._found.get(counted_table(wanted.table, wanted.columns), self._found.get(wanted.table, {}))
        shape = self._declared.get(wanted.table)
        return faults_of(wanted, found, shape.columns if shape else {})

    @cached_property
    def missing(self) -> MissingParts:
        """What of the declared tables and columns is not there."""
        return MissingParts.of(self._declared, self._found)

    @cached_property
    def _declared(self) -> dict[str, TableShape]:
        return declared_tables(PANDA)


def columns_present(connection: sa.Connection, names: Names, table: str) -> frozenset[str]:
    """The columns that one table of PanDA's has in this database; empty when there is no such table."""
    return TableCatalogue.read(connection, names).columns_present(table)


def own_tables() -> dict[str, TableShape]:
    """The tables of ours that the schema files declare."""
    return declared_tables(OWN)
