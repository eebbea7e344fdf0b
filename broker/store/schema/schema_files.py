"""The numbered SQL files under ``schema/``: what they are called, what they say, which columns they make."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from broker import resources
from broker.errors import BrokerError
from broker.store.connection.names import Names, quoted

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
    """A file under ``schema/`` that cannot be used."""


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
        """How the step is called in messages."""
        return f"schema/{self.part}/{self.version:04d}_{self.name}.sql"

    def statements(self, names: Names) -> str:
        """The SQL with the schema names of ``names``."""
        text = re.sub(r"\bdoma_pandameta\.", lambda _: quoted(names.meta) + ".", self.text)
        return re.sub(r"\bdoma_panda\.", lambda _: quoted(names.panda) + ".", text)


@dataclass(frozen=True)
class TableShape:
    """One table as the files declare it: column name to SQL type, in order, and the primary key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]


def read_migrations(part: str, folder: Path | None = None) -> tuple[Migration, ...]:
    """All steps of a part, in order of their numbers.

    Raises:
        BadSchemaFile: a file name without number, or one number twice.
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
