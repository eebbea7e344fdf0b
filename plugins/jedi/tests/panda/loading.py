"""A scenario in a fresh database with PanDA's tables: PanDA's own definitions where a checkout is named, else ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import META_TABLES
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema.migrate import upgrade
from panda import definitions, own_tables
from panda.own_tables import Column, read_columns

_ROWS = (Path(__file__).parent / "rows_beside.sql").read_text(encoding="utf-8")
_ZEROS = {"character": "''", "text": "''", "timestamp": "TIMESTAMP '1970-01-01'", "json": "'{}'"}
_NUMBERED = {
    "jobsdefined4_pandaid_seq": (("jobsdefined4", "pandaid"), ("jobsactive4", "pandaid")),
    "jedi_datasets_id_seq": (("jedi_datasets", "datasetid"),),
    "jedi_dataset_cont_fileid_seq": (("jedi_dataset_contents", "fileid"),),
    "filestable4_row_id_seq": (("filestable4", "row_id"),),
}


def make_tables(url: str) -> None:
    """Make PanDA's tables, and those of the broker, in an empty database."""
    folder = definitions.checkout()
    if folder is not None:
        definitions.install(url, folder)
    with Database(url) as database:
        upgrade(database)
    if folder is None:
        with psycopg2.connect(plain(url)) as connection:
            own_tables.complete(connection)
        connection.close()


def load_scenario(url: str, scenario: Scenario) -> None:
    """Load a scenario into empty tables, with what PanDA's classes read beside."""
    with Database(url) as database:
        if definitions.checkout() is None:
            load(database, scenario)
        else:
            _load_alongside(database, scenario)
    with psycopg2.connect(plain(url)) as connection:
        _fill_beside(connection)
    connection.close()


def complete_loaded(url: str) -> None:
    """Make our tables, with a scenario in them, what PanDA's classes read."""
    with psycopg2.connect(plain(url)) as connection:
        own_tables.complete(connection)
        _fill_beside(connection)
    connection.close()


def _fill_beside(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_ROWS)
        for name, columns in _NUMBERED.items():
            highest = ", ".join(f"(SELECT max({column}) FROM doma_panda.{table})" for table, column in columns)
            cursor.execute(f"SELECT setval('doma_panda.{name}', coalesce(greatest({highest}), 0) + 1)")
    connection.commit()


def which_tables() -> str:
    """Whose definitions the tests run with."""
    folder = definitions.checkout()
    if folder is None:
        return f"ours, with the columns of PanDA's schema {own_tables.VERSION} ({definitions.VARIABLE} is not set)"
    return f"PanDA's own, schema {definitions.version(folder)}, from {folder}"


def plain(url: str) -> str:
    """The address as libpq reads it."""
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def name_of(url: str) -> str:
    """The name of the database at an address."""
    return str(sa.make_url(url).database)


def _load_alongside(database: Database, scenario: Scenario) -> None:
    """The rows of a scenario in PanDA's own tables: NULL where it says nothing, as PanDA's classes write it."""
    rucio = {name: rows for name, rows in scenario.tables.items() if name in REPLICA_TABLES and rows}
    if rucio:
        load(database, Scenario(scenario.now, rucio))
    with psycopg2.connect(plain(database.url)) as connection:
        by_table: dict[str, list[Column]] = {}
        for one in read_columns(connection):
            by_table.setdefault(f"{one.schema}.{one.table}", []).append(one)
        for name, rows in scenario.tables.items():
            schema = "doma_pandameta" if name in META_TABLES else "doma_panda"
            if name not in REPLICA_TABLES and rows:
                _insert(connection, f"{schema}.{name}", by_table[f"{schema}.{name}"], rows)
    connection.close()


def _insert(connection: Any, table: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as JSON; where a row leaves out a column that must not be NULL, its default or a zero of its type."""
    values = ", ".join(_value(one) for one in columns)
    names = ", ".join(f'"{one.name}"' for one in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {values} FROM json_populate_recordset(NULL::{table}, %s) AS row",
            (json.dumps([dict(row) for row in rows], default=str),),
        )


def _value(one: Column) -> str:
    given = f'row."{one.name}"'
    if not one.needed:
        return given
    zero = next((zero for kind, zero in _ZEROS.items() if one.type.startswith(kind)), "0")
    return f"coalesce({given}, {one.default or zero})"
