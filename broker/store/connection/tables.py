"""The tables of a database: what the schema files declare, what is actually there, and how names are quoted.

- :func:`read_migrations`, :func:`declared_tables`: the numbered SQL files under ``schema/``: names, texts, columns.
- :class:`TableCatalogue`: the columns that a database has; missing ones are read as NULL.
- :func:`quoted`, :class:`Names`: schema names, and identifiers, which cannot be query parameters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import sqlalchemy as sa

from broker import resources
from broker.domain.installation_vo import DEFAULT_VO
from broker.errors import BrokerError
from broker.store.connection.panda_columns import ColumnFault, ColumnsChanged, PandaColumns, faults_of

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,62}")

META_TABLES = frozenset({"sitedata"})
"""Tables that PanDA keeps in its meta schema."""

OWN_SCHEMA = "broker"


class BadName(BrokerError):
    """PostgreSQL cannot hold the name."""


def quoted(name: str) -> str:
    """The identifier ``name`` in double quotes, safe inside SQL text.

    Raises:
        BadName: the name is empty, holds a NUL, or is longer than PostgreSQL's 63 bytes.
    """
    if not name or "\0" in name or len(name.encode()) > 63:
        raise BadName(f"not a usable SQL name: {name[:80]!r}", "", "use 1 to 63 bytes without NUL")
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Names:
    """The schemas of one database.

    Attributes:
        panda: PanDA's main schema.
        meta: PanDA's meta schema (table ``sitedata``).
        vo: the VO of the installation, used wherever none is named.

    Raises:
        BadName: a schema name has characters other than letters, digits, underscores, hyphens and blanks.
    """

    panda: str = "doma_panda"
    meta: str = "doma_pandameta"
    vo: str = DEFAULT_VO

    def __post_init__(self) -> None:
        for name in (self.panda, self.meta):
            if not _PLAIN.fullmatch(name):
                # Plain names mean the same to every layer that sees SQL text: placeholders, formats, psql options.
                raise BadName(
                    f"not a usable schema name: {name[:80]!r}",
                    "",
                    "use letters, digits, underscores, hyphens and blanks",
                )

    @property
    def broker(self) -> str:
        """The schema of our own tables, the same in every database."""
        return OWN_SCHEMA

    def schema_of(self, panda_table: str) -> str:
        """The (unquoted) schema of one of PanDA's tables."""
        return self.meta if panda_table in META_TABLES else self.panda

    def table(self, panda_table: str) -> str:
        """One of PanDA's tables, qualified and quoted."""
        return f"{quoted(self.schema_of(panda_table))}.{quoted(panda_table)}"

    def own(self, table: str) -> str:
        """One of our own tables, qualified and quoted."""
        return f"{quoted(OWN_SCHEMA)}.{quoted(table)}"

    def sql(self, text: str) -> str:
        """``text`` with ``{panda}``, ``{meta}`` and ``{broker}`` replaced by the quoted schemas.

        Only these three placeholders are replaced, so JSON braces need no doubling.
        """
        return (
            text.replace("{panda}", quoted(self.panda))
            .replace("{meta}", quoted(self.meta))
            .replace("{broker}", quoted(OWN_SCHEMA))
        )


PANDA = "panda"
OWN = "broker"

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_CREATE = re.compile(
    r"CREATE TABLE (doma_panda|doma_pandameta|broker)\.(\w+) \((.*?)\n?\)(?: PARTITION BY [^;]*| WITH \([^)]*\))?;",
    re.DOTALL,
)
_RENAME = re.compile(r"^ALTER TABLE \w+\.(\w+) RENAME TO (\w+);", re.MULTILINE)
_RENAME_COLUMN = re.compile(
    r"^ALTER TABLE (?:doma_panda|doma_pandameta|broker)\.(\w+) RENAME COLUMN (\w+) TO (\w+);", re.MULTILINE
)
_COLUMN = re.compile(r"^ {4}([a-z_][a-z0-9_]*) (double precision|[a-z]+(?: ?\([^)]*\))?)", re.MULTILINE)
_RETYPE = re.compile(
    r"ALTER TABLE (?:doma_panda|doma_pandameta|broker)\.(\w+) ALTER COLUMN (\w+)"
    r" TYPE (double precision|[a-z]+(?: ?\([^)]*\))?)"
)
_ADDED = re.compile(
    r"^ALTER TABLE (?:doma_panda|doma_pandameta|broker)\.(\w+)"
    r"\s+ADD COLUMN (\w+) ([^;,]+?)( NOT NULL| DEFAULT [^;]*)?;",
    re.MULTILINE,
)
_LIKE = re.compile(r"LIKE \w+\.(\w+)")
_KEY = re.compile(r"PRIMARY KEY \(([^)]*)\)")


class BadSchemaFile(BrokerError):
    """A file under ``schema/`` cannot be used."""


@dataclass(frozen=True)
class Migration:
    """One numbered step.

    Attributes:
        part: ``panda`` (PanDA's tables, standalone only) or ``broker`` (ours).
        version: the number in the file name.
        name: the words in the file name.
        text: the SQL as written, with PanDA's default schema names.
    """

    part: str
    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, the same for every line ending."""
        return hashlib.sha256("\n".join(self.text.splitlines()).encode()).hexdigest()

    @property
    def label(self) -> str:
        """The name of the step in messages."""
        return f"schema/{self.part}/{self.version:04d}_{self.name}.sql"

    def statements(self, names: Names) -> str:
        """The SQL with the schema names of ``names``."""
        text = re.sub(r"\bdoma_pandameta\.", lambda _: quoted(names.meta) + ".", self.text)
        return re.sub(r"\bdoma_panda\.", lambda _: quoted(names.panda) + ".", text)


@dataclass(frozen=True)
class TableShape:
    """One table as the files declare it: SQL types by column name, in order, and the primary key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]


def read_migrations(part: str, folder: Path | None = None) -> tuple[Migration, ...]:
    """All steps of a part, ordered by number.

    Raises:
        BadSchemaFile: a file name has no number, or two files have the same one.
    """
    return _shipped(part) if folder is None else _read(part, folder)


@cache
def _shipped(part: str) -> tuple[Migration, ...]:
    return _read(part, resources.path("schema"))


def _read(part: str, root: Path) -> tuple[Migration, ...]:
    steps: dict[int, Migration] = {}
    for path in sorted((root / part).glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise BadSchemaFile(f"not a migration name: {path.name}", str(path.parent), "name it NNNN_words.sql")
        version = int(match[1])
        if version in steps:
            raise BadSchemaFile(f"number {version:04d} is used twice", str(path), "give the newer file the next number")
        steps[version] = Migration(part, version, match[2], path.read_text(encoding="utf-8"))
    return tuple(steps[version] for version in sorted(steps))


def declared_tables(part: str) -> dict[str, TableShape]:
    """The tables that a part declares, by name, in the order of the files."""
    return dict(_declared(part))


@cache
def _declared(part: str) -> dict[str, TableShape]:
    shapes: dict[str, TableShape] = {}
    for migration in read_migrations(part):
        for old, new in _RENAME.findall(migration.text):
            shapes[new] = replace(shapes.pop(old), name=new)
        for _, table, body in _CREATE.findall(migration.text):
            like = _LIKE.search(body)
            columns = dict(shapes[like[1]].columns) if like else dict(_COLUMN.findall(body))
            key = _KEY.search(body)
            shapes[table] = TableShape(table, columns, tuple(key[1].split(", ")) if key else ())
        for table, column, sql_type in _RETYPE.findall(migration.text):
            shapes[table].columns[column] = sql_type
        for table, column, kind, _ in _ADDED.findall(migration.text):
            shapes[table].columns[column] = kind
        for table, old, new in _RENAME_COLUMN.findall(migration.text):
            columns = {new if name == old else name: kind for name, kind in shapes[table].columns.items()}
            shapes[table] = replace(shapes[table], columns=columns)
    return shapes


#: Tables with one row per job; in mode ``mirrored`` only counts of their rows are kept.
JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")

# one row per table, because a database has some 1,500 columns
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


# in a mirror: the columns that PanDA's own tables lacked when their copies were made
_READ_LACKING = "SELECT name, lacking FROM broker.mirror_copies WHERE lacking <> '{}'"


def counted_table(table: str, columns: Iterable[str]) -> str:
    """The table of a mirror that holds one row, with its count, for all rows of ``table`` equal in ``columns``.

    The count is in the column ``counted``. Only an installation in mode ``mirrored`` has such tables.
    """
    return f"counted_{table}_{hashlib.sha256(','.join(columns).encode()).hexdigest()[:8]}"


def read_columns(connection: sa.Connection, names: Names) -> dict[str, dict[str, str]]:
    """The SQL types of the columns of every PanDA table in this database, by table and column."""
    tables: dict[str, dict[str, str]] = {}
    rows = connection.execute(sa.text(_READ_COLUMNS), {"schemas": [names.panda, names.meta]})
    for schema, table, columns, sql_types in rows:
        if schema == names.schema_of(table):
            tables.setdefault(table, {}).update(zip(columns, sql_types, strict=True))
    return tables


def read_own_columns(connection: sa.Connection) -> dict[str, dict[str, str]]:
    """The SQL types of the columns of every table of ours in this database, by table and column."""
    rows = connection.execute(sa.text(_READ_COLUMNS), {"schemas": [OWN_SCHEMA]})
    return {table: dict(zip(columns, sql_types, strict=True)) for _, table, columns, sql_types in rows}


@dataclass(frozen=True)
class MissingParts:
    """The tables and columns that the broker reads and a PanDA database lacks.

    Attributes:
        tables: missing tables.
        columns: missing columns of existing tables.
    """

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, wanted: Mapping[str, TableShape], existing: Mapping[str, Mapping[str, str]]) -> MissingParts:
        """Compare the declared tables with the existing ones."""
        columns = {
            name: tuple(column for column in shape.columns if column not in existing[name])
            for name, shape in wanted.items()
            if name in existing
        }
        return cls(
            tuple(name for name in wanted if name not in existing),
            {name: missing for name, missing in columns.items() if missing},
        )

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns)


class TableCatalogue:
    """The tables of one database, read once per connection or service.

    Args:
        names: the schema names.
        column_types: types of the columns by PanDA table and column, from :func:`read_columns`.
    """

    def __init__(self, names: Names, column_types: Mapping[str, Mapping[str, str]]) -> None:
        self.names = names
        self._column_types = column_types

    @classmethod
    def read(cls, connection: sa.Connection, names: Names) -> TableCatalogue:
        """Read the catalogue of the database; a mirror copy has only the columns of PanDA's own table."""
        column_types = read_columns(connection, names)
        if connection.scalar(sa.text("SELECT to_regclass('broker.mirror_copies')")) is not None:
            for name, lacking in connection.execute(sa.text(_READ_LACKING)):
                column_types[name] = {
                    column: kind for column, kind in column_types.get(name, {}).items() if column not in lacking
                }
        return cls(names, column_types)

    def columns_present(self, table: str) -> frozenset[str]:
        """The columns of ``table``; empty if there is no such table."""
        return frozenset(self._column_types.get(table, ()))

    def select_list(self, table: str, columns: Iterable[str], alias: str = "") -> str:
        """SQL that lists ``columns`` of ``table`` in order, with typed NULLs for missing ones.

        Args:
            table: one of PanDA's tables.
            columns: the columns to list; a missing one that the schema files do not declare becomes a text NULL.
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
        """SQL for a FROM clause: ``table`` with exactly ``columns``, even if the database lacks the table.

        A missing table reads as empty. If only counts of its rows are kept, each row is repeated by its count.
        """
        wanted = tuple(columns)
        counted = counted_table(table, wanted)
        if counted in self._column_types:
            listed = ", ".join(quoted(column) for column in wanted)
            return f"(SELECT {listed} FROM {self.names.table(counted)}, generate_series(1, counted))"  # noqa: S608 - quoted names
        if self.columns_present(table):
            return f"(SELECT {self.select_list(table, wanted)} FROM {self.names.table(table)})"  # noqa: S608 - quoted names
        return f"(SELECT {self.select_list(table, wanted)} WHERE false)"

    def needed(self, wanted: PandaColumns) -> str:
        """SQL for a FROM clause like :meth:`source`, for rows on which decisions are based.

        Raises:
            ColumnsChanged: a required column is missing or has another type.
        """
        faults = self.faults(wanted)
        if faults:
            raise ColumnsChanged(faults)
        return self.source(wanted.table, wanted.columns)

    def faults(self, wanted: PandaColumns) -> tuple[ColumnFault, ...]:
        """The required columns that cannot be read."""
        types = self._column_types.get(
            counted_table(wanted.table, wanted.columns), self._column_types.get(wanted.table, {})
        )
        shape = self._declared.get(wanted.table)
        return faults_of(wanted, types, shape.columns if shape else {})

    @cached_property
    def missing(self) -> MissingParts:
        """The declared tables and columns that the database lacks."""
        return MissingParts.of(self._declared, self._column_types)

    @cached_property
    def _declared(self) -> dict[str, TableShape]:
        return declared_tables(PANDA)


def columns_present(connection: sa.Connection, names: Names, table: str) -> frozenset[str]:
    """The columns of one PanDA table in this database; empty if there is no such table."""
    return TableCatalogue.read(connection, names).columns_present(table)


def own_tables() -> dict[str, TableShape]:
    """The tables of ours that the schema files declare."""
    return declared_tables(OWN)
