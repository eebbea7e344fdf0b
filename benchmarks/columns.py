"""Tables as columns: benchmarks make rows in this form, convert them to a scenario, or copy them to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from broker.store.connection.tables import Names

OWN_TABLES = frozenset({"dataset_replicas", "dataset_metadata", "file_replicas", "container_contents"})
Columns = Mapping[str, Sequence[Any]]


def size(columns: Columns) -> int:
    """Return the number of rows of a table; raise ValueError if its columns differ in length."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of different length: { {name: len(values) for name, values in columns.items()} }")
    return lengths.pop() if lengths else 0


def from_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Convert rows to columns; a value that a row leaves out becomes None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@dataclass(frozen=True)
class ColumnScenario:
    """A scenario whose tables are columns.

    Attributes:
        now: the instant of the scenario, ISO 8601 UTC.
        tables: columns by table; every column of a table has the same length.
    """

    now: str
    tables: Mapping[str, Columns]

    def rows(self) -> dict[str, Any]:
        """Return the scenario in the form that ``broker db load`` takes."""
        return {"now": self.now, "tables": {name: list(_records(columns)) for name, columns in self.tables.items()}}

    def copy_into(self, connection: psycopg.Connection[Any], names: Names) -> int:
        """Write every table by COPY and return the number of rows; the caller owns the transaction.

        Args:
            connection: a connection to a migrated database in which these tables are empty.
            names: the schemas of that database.
        """
        return sum(_copy(connection, names, table, columns) for table, columns in self.tables.items())


def _records(columns: Columns) -> Iterator[dict[str, Any]]:
    names = tuple(columns)
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(names, values, strict=True))


def _copy(connection: psycopg.Connection[Any], names: Names, table: str, columns: Columns) -> int:
    rows = size(columns)
    if not rows:
        return 0
    schema = names.broker if table in OWN_TABLES else names.schema_of(table)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(schema, table), sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    )
    adapted_columns = [_adapt(values) for values in columns.values()]
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for values in zip(*adapted_columns, strict=True):
            copy.write_row(values)
    return rows


def _adapt(values: Sequence[Any]) -> Sequence[Any]:
    if any(isinstance(value, dict | list) for value in values):
        return [None if value is None else Jsonb(value) for value in values]
    return values
