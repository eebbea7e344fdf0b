"""Replace the rows of a copy, in the caller's transaction; only differences are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from broker.alongside.model.panda_reader import PandaSchemas
from broker.alongside.statements.table_copy import TableCopy
from broker.domain.instants import naive
from broker.store.connection.database import Database
from broker.store.connection.tables import META_TABLES, PANDA, Names, TableShape, declared_tables, quoted
from broker.store.schema.migrate import WRITING_COPIES

_STAGED = "staged_copy"
COUNTED = "counted"


def allow_writing(connection: sa.Connection, *names: str) -> None:
    """Let this transaction write the copies, which nothing else may, and lock the named ones against other writers."""
    connection.exec_driver_sql(f"SET LOCAL {WRITING_COPIES} = 'on'")
    for name in sorted(names):
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"copy of {name}"})


def owner_of(schemas: PandaSchemas, table: str) -> str:
    """The schema of a table in PanDA's database."""
    return schemas.meta if table in META_TABLES else schemas.panda


def shape_of(copy: TableCopy) -> TableShape:
    """The columns of the mirror's table with their types, and its key."""
    declared = declared_tables(PANDA)[copy.table]
    if not copy.counted:
        return declared
    columns = {name: declared.columns[name] for name in copy.columns}
    return TableShape(copy.name, {**columns, COUNTED: "bigint"}, ())


def make_counted_table(connection: sa.Connection, names: Names, copy: TableCopy) -> None:
    """Create the table for the counts of a copy, if it does not exist."""
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in shape_of(copy).columns.items())
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {names.table(copy.name)} ({columns})")


def stage(
    connection: sa.Connection, names: Names, copy: TableCopy, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Send the rows to the server, into a table of this transaction."""
    listed = ", ".join(map(quoted, columns))
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS pg_temp.{_STAGED}")
    rows_of = f"SELECT {listed} FROM {names.table(copy.name)} WITH NO DATA"  # noqa: S608 - quoted names
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {_STAGED} ON COMMIT DROP AS {rows_of}")
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(_STAGED), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with Database.raw(connection).cursor() as cursor, cursor.copy(statement) as sink:
        for row in rows:
            sink.write_row(row)


def replace_rows(
    connection: sa.Connection, names: Names, copy: TableCopy, columns: Sequence[str], now: datetime
) -> None:
    """Make the table equal to the staged rows; rows that are gone stay if the copy keeps them for a time."""
    table, key = names.table(copy.name), shape_of(copy).key
    if not key:
        connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608 - quoted names
        merge_rows(connection, names, copy, columns)
        return
    key_condition = " AND ".join(f"s.{quoted(name)} = r.{quoted(name)}" for name in key)
    gone = f"DELETE FROM {table} AS r WHERE NOT EXISTS (SELECT FROM {_STAGED} AS s WHERE {key_condition})"  # noqa: S608
    values: Mapping[str, Any] = {}
    if copy.retention_column is not None:
        gone += f" AND (r.{quoted(copy.retention_column)} < :limit OR r.{quoted(copy.retention_column)} IS NULL)"
        values = {"limit": naive(now - copy.retention)}
    connection.execute(sa.text(gone), values)
    merge_rows(connection, names, copy, columns)


def merge_rows(connection: sa.Connection, names: Names, copy: TableCopy, columns: Sequence[str]) -> None:
    """Add the staged rows; a row whose key exists is changed if it differs."""
    table, key = names.table(copy.name), shape_of(copy).key
    listed = ", ".join(map(quoted, columns))
    statement = f"INSERT INTO {table} AS r ({listed}) SELECT {listed} FROM {_STAGED}"  # noqa: S608 - quoted names
    others = [quoted(name) for name in columns if name not in key]
    if key:
        keys = ", ".join(map(quoted, key))
        before, after = (", ".join(f"{of}.{name}" for name in others) for of in ("r", "excluded"))
        # in one order everywhere, so that two writers of the same rows never wait for each other
        statement += f" ORDER BY {keys} ON CONFLICT ({keys}) DO "
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        # documents of type json cannot be compared
        statement += (
            f"UPDATE SET {sets} WHERE ROW({before})::text IS DISTINCT FROM ROW({after})::text" if others else "NOTHING"
        )
    connection.exec_driver_sql(statement)


def remove_tasks(connection: sa.Connection, names: Names, table: str, tasks: Sequence[int]) -> None:
    """Remove the rows of tasks from a copy without a key."""
    statement = f"DELETE FROM {names.table(table)} WHERE jeditaskid = ANY(:tasks)"  # noqa: S608 - quoted names
    connection.execute(sa.text(statement), {"tasks": list(tasks)})
