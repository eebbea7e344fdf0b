"""Loading scenarios into the database and dumping them from it, each in one transaction."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.plain_rows import scalar
from broker.store.connection.tables import (
    PANDA,
    Names,
    TableShape,
    declared_tables,
    own_tables,
    quoted,
    read_columns,
    read_own_columns,
)
from broker.store.scenarios.scenario_file import BadScenario, BadValue, Row, Scenario, from_column, to_column
from broker.store.schema import migrate
from broker.store.summaries.worker_node_summaries import SUMMARIES, note_refresh, write_differences
from broker.store.upkeep.cleanup_jobs import ARCHIVE_SCHEMA, ARCHIVE_TABLES
from broker.store.upkeep.cleanup_rows import FAILURE_TABLES, LEARNED_TABLES

REPLICA_TABLES = (
    *("dataset_replicas", "file_replicas", "dataset_metadata", "container_contents"),
    *("rucio_account_usage", "rucio_local_usage"),
)
"""Tables of ours that scenarios contain."""

_ABOUT_SCENARIO = (
    *LEARNED_TABLES,
    "task_requirements",
    "task_queues",
    "task_queue_levels",
    "waiting_jobs",
    "decisions",
    "decisions_unpacked",
    "decision_quality",
    "decision_repeats",
    "decision_legends",
    "chunk_states",
    "reason_counts",
    "queue_counts",
    "waiting_counts",
    "snapshots",
    "snapshot_blobs",
    "job_actions",
    *FAILURE_TABLES,
    "rebrokered_from",
    "scenario_clock",
    "feature_reports",
    "queue_features",
    "sss_identity",
    "sss_property",
    "task_alternatives",
    "job_status_reports",
    "summary_refreshes",
    "feed_documents",
    "feed_runs",
    "feed_changes",
    "replica_requests",
    "queue_pins",
)
"""Tables of ours with the results of work on a scenario: emptied when another one replaces it."""

_FIRST_MATCH = frozenset({"resource_types", "global_shares"})
"""Tables where PanDA takes the first row that matches: they keep the order in which they were loaded."""

_FEW_ROWS = 1000
"""Number of rows up to which deleting them is faster than truncating the table."""

_FIND_LINKED = """
    SELECT DISTINCT name FROM unnest(%s::text[]) AS name, pg_constraint AS c
    WHERE c.contype = 'f' AND to_regclass(name) IN (c.conrelid, c.confrelid)"""

_SEQUENCES = {
    "jobsdefined4_pandaid_seq": (("jobsdefined4", "pandaid"), ("jobsactive4", "pandaid"), ("jobsarchived4", "pandaid")),
    "jedi_datasets_id_seq": (("jedi_datasets", "datasetid"),),
    "filestable4_row_id_seq": (("filestable4", "row_id"),),
}


class TablesNotEmpty(Refused):
    """Loading would mix a scenario with existing rows."""


@dataclass(frozen=True)
class ScenarioTable:
    """A table that scenarios may contain.

    Attributes:
        name: its name in scenario files.
        qualified: its name in SQL, qualified and quoted.
        columns: SQL types by column, in the order of the database.
        key: columns of the primary key.
    """

    name: str
    qualified: str
    columns: Mapping[str, str]
    key: tuple[str, ...]


@dataclass(frozen=True)
class CheckedTable:
    """The rows of one table, checked and ready for COPY."""

    table: ScenarioTable
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def scenario_tables(connection: sa.Connection, names: Names) -> dict[str, ScenarioTable]:
    """The tables of this database that scenarios may contain, by name."""
    shapes: dict[str, TableShape] = {**declared_tables(PANDA), **own_tables()}
    panda = read_columns(connection, names)
    own = read_own_columns(connection)
    tables = {
        name: ScenarioTable(name, names.table(name), panda[name], shapes[name].key) for name in shapes if name in panda
    }
    for name in REPLICA_TABLES:
        tables[name] = ScenarioTable(name, names.own(name), own[name], shapes[name].key)
    return tables


def prepare(scenario: Scenario, tables: Mapping[str, ScenarioTable]) -> list[CheckedTable]:
    """Check and convert every table, column and value of a scenario.

    Raises:
        BadScenario: something does not fit; the error names the table, the row (counted from 1) and the column.
    """
    for name in scenario.tables:
        if name not in tables:
            raise BadScenario(f"unknown table {name!r}", "the scenario", _closest(name, tables))
    return [_prepare_table(tables[name], rows) for name, rows in scenario.tables.items() if rows]


def load(database: Database, scenario: Scenario, *, replace: bool = False) -> dict[str, int]:
    """Store a scenario in one transaction; return the number of rows by table.

    Args:
        database: with the current schema; alongside PanDA only Rucio's tables are accepted, and the clock stays.
        scenario: the scenario to store; its ``now`` becomes the clock of ``--at scenario``.
        replace: whether to empty all scenario tables first, and forget the decisions about them.

    Raises:
        BadScenario: a table, column or value does not fit.
        TablesNotEmpty: there are rows already, and ``replace`` is false.
        Refused: some of the tables belong to a PanDA installation.
    """
    if migrate.check(database) != migrate.STANDALONE:
        return _load_catalogue(database, scenario, replace=replace)
    with database.begin() as connection:
        tables = scenario_tables(connection, database.names)
        prepared = prepare(scenario, tables)
        _make_room(connection, tables.values(), replace=replace)
        for prepared_table in prepared:
            _copy(database.raw(connection), prepared_table)
        _summarise_nodes(connection, database.names, scenario, tables)
        _raise_sequences(connection, database.names)
        _set_clock(connection, scenario.now)
        for prepared_table in prepared:
            connection.exec_driver_sql(f"ANALYZE {prepared_table.table.qualified}")
    return {prepared_table.table.name: len(prepared_table.rows) for prepared_table in prepared}


def append(database: Database, connection: sa.Connection, scenario: Scenario) -> None:
    """Add rows to a loaded scenario in the transaction of ``connection``; the clock stays.

    Raises:
        BadScenario: a table, column or value does not fit, or a row exists already.
    """
    for prepared_table in prepare(scenario, scenario_tables(connection, database.names)):
        _copy(database.raw(connection), prepared_table)
    _raise_sequences(connection, database.names)


def _load_catalogue(database: Database, scenario: Scenario, *, replace: bool) -> dict[str, int]:
    """Load Rucio's tables alongside PanDA, where they are ours as well; no other table is changed."""
    theirs = sorted(name for name, rows in scenario.tables.items() if rows and name not in REPLICA_TABLES)
    if theirs or not any(scenario.tables.values()):
        excerpt = ", ".join(theirs[:8]) or "the scenario has none of Rucio's"
        raise Refused(
            f"PanDA's tables belong to a PanDA installation: {excerpt}",
            repr(database),
            f"load only {', '.join(REPLICA_TABLES)}, or load into a database of its own",
        )
    with database.begin() as connection:
        tables = scenario_tables(connection, database.names)
        own = {name: tables[name] for name in REPLICA_TABLES}
        prepared = prepare(scenario, own)
        if replace:
            for table in own.values():
                connection.exec_driver_sql(f"DELETE FROM {table.qualified}")  # noqa: S608 - quoted names
        else:
            _refuse_rows(connection, own.values())
        for prepared_table in prepared:
            _copy(database.raw(connection), prepared_table)
            connection.exec_driver_sql(f"ANALYZE {prepared_table.table.qualified}")
    return {prepared_table.table.name: len(prepared_table.rows) for prepared_table in prepared}


def dump(database: Database, now: datetime) -> Scenario:
    """Dump the scenario tables of a database as of one instant.

    Args:
        database: a database with the current schema.
        now: the instant (aware) to record if no scenario was loaded.
    """
    with database.read_snapshot() as connection:
        tables = scenario_tables(connection, database.names)
        rows = {name: _read_rows(connection, table) for name, table in tables.items()}
        return Scenario(read_clock(connection) or now, {name: some for name, some in rows.items() if some})


_READ_CLOCK = sa.text("SELECT now FROM broker.scenario_clock")


def read_clock(connection: sa.Connection) -> datetime | None:
    """The instant of the loaded scenario (aware); None if none was loaded."""
    moment: datetime | None = scalar(connection, _READ_CLOCK)
    return moment


def forget_clock(connection: sa.Connection) -> datetime | None:
    """Return to the wall clock; return the instant (aware) of the scenario until now, if any."""
    moment: datetime | None = connection.scalar(sa.text("DELETE FROM broker.scenario_clock RETURNING now"))
    return moment


def _prepare_table(table: ScenarioTable, rows: Sequence[Row]) -> CheckedTable:
    used: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        for column in row:
            if column not in table.columns:
                raise BadScenario(
                    f"unknown column {column!r}", f"table {table.name}, row {number}", _closest(column, table.columns)
                )
            used[column] = None
    columns = tuple(used) or tuple(table.columns)[:1]
    _check_keys(table, rows)
    by_column = [_convert(table, column, [row.get(column) for row in rows]) for column in columns]
    return CheckedTable(table, columns, list(zip(*by_column, strict=True)))


def _convert(table: ScenarioTable, column: str, values: list[Any]) -> list[Any]:
    convert = to_column(table.columns[column])
    converted = []
    for number, value in enumerate(values, 1):
        try:
            converted.append(None if value is None else convert(value))
        except BadValue as error:
            where = f"table {table.name}, row {number}, column {column}"
            raise BadScenario(error.what, where, "correct the value") from error
    return converted


def _check_keys(table: ScenarioTable, rows: Sequence[Row]) -> None:
    seen: dict[tuple[str, ...], int] = {}
    if not table.key:
        return
    for number, row in enumerate(rows, 1):
        for column in table.key:
            if row.get(column) is None:
                where = f"table {table.name}, row {number}, column {column}"
                raise BadScenario("a key column has no value", where, "give it one")
        key = tuple(str(row[column]) for column in table.key)
        first = seen.setdefault(key, number)
        if first != number:
            where = f"table {table.name}, row {number}, column {', '.join(table.key)}"
            raise BadScenario(f"the key repeats that of row {first}", where, "remove one of the two")


def _closest(name: str, known: Iterable[str]) -> str:
    options = list(known)
    close = difflib.get_close_matches(name, options, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(sorted(options)[:60])}"


def _make_room(connection: sa.Connection, tables: Iterable[ScenarioTable], *, replace: bool) -> None:
    table_list = list(tables)
    if replace:
        about_them = (f"broker.{table}" for table in _ABOUT_SCENARIO)
        archived = (f"{ARCHIVE_SCHEMA}.{table}" for table in ARCHIVE_TABLES)
        ordered = {table.qualified for table in table_list if table.name in _FIRST_MATCH}
        _empty(connection, [*(table.qualified for table in table_list), *about_them, *archived], ordered)
        return
    _refuse_rows(connection, table_list)


def _empty(connection: sa.Connection, tables: Sequence[str], ordered: Collection[str]) -> None:
    """Remove all rows, with TRUNCATE only for large tables, because it recreates the files of a table and its indexes.

    Args:
        connection: in the loading transaction.
        tables: quoted names.
        ordered: tables that keep the order in which they are loaded, in which deleted rows must not leave gaps.
    """
    connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
    counted = ", ".join(
        f"(SELECT count(*) FROM (SELECT FROM {table} LIMIT {_FEW_ROWS + 1}) AS few)"  # noqa: S608 - quoted names
        for table in tables
    )
    rows = dict(zip(tables, connection.exec_driver_sql(f"SELECT {counted}").one(), strict=True))
    # foreign keys permit neither truncating one table alone nor deleting in arbitrary order
    linked = {name for (name,) in connection.exec_driver_sql(_FIND_LINKED, (list(tables),))}
    linked = linked if any(rows[table] for table in linked) else set()
    long = [
        table for table, count in rows.items() if count > _FEW_ROWS or (count and table in ordered) or table in linked
    ]
    if long:
        connection.exec_driver_sql(f"TRUNCATE {', '.join(long)}")
    for table in tables:
        if rows[table] and table not in long:
            connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608 - quoted names


def _refuse_rows(connection: sa.Connection, tables: Iterable[ScenarioTable]) -> None:
    """Raise TablesNotEmpty if one of the tables holds rows."""
    table_list = list(tables)
    checks = ", ".join(f"EXISTS (SELECT FROM {table.qualified})" for table in table_list)
    results = connection.exec_driver_sql(f"SELECT {checks}").one()
    full = [table.name for table, holds in zip(table_list, results, strict=True) if holds]
    if full:
        raise TablesNotEmpty(
            f"{len(full)} tables hold rows already",
            f"for example {full[0]}",
            "load with --replace to empty all scenario tables first, or use another database",
        )


def _copy(connection: psycopg.Connection[Any], prepared: CheckedTable) -> None:
    columns = ", ".join(quoted(column) for column in prepared.columns)
    statement = f"COPY {prepared.table.qualified} ({columns}) FROM STDIN"
    try:
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for row in prepared.rows:
                copy.write_row(row)
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        # The context names the line of the COPY, which is the row of the scenario.
        where = (error.diag.context or f"table {prepared.table.name}").splitlines()[0]
        raise BadScenario(error.diag.message_primary or str(error), where[:300], "correct the row") from error


def _summarise_nodes(
    connection: sa.Connection, names: Names, scenario: Scenario, tables: Mapping[str, ScenarioTable]
) -> None:
    """Build the summaries of worker nodes that a scenario lacks, if it has the tables that they are computed from."""
    for summary in SUMMARIES:
        reported = all(scenario.tables.get(table) for table in summary.reports)
        if reported and not scenario.tables.get(summary.table):
            write_differences(connection, names, summary, tuple(tables[summary.table].columns), scenario.now)
            note_refresh(connection, summary, scenario.now)


def _raise_sequences(connection: sa.Connection, names: Names) -> None:
    for sequence, columns in _SEQUENCES.items():
        highest = ", ".join(f"(SELECT max({quoted(c)}) FROM {names.table(t)})" for t, c in columns)  # noqa: S608
        qualified = f"{quoted(names.panda)}.{quoted(sequence)}"
        connection.execute(
            sa.text(f"SELECT setval(:name, greatest({highest}, (SELECT last_value FROM {qualified})))"),  # noqa: S608
            {"name": qualified},
        )


def _set_clock(connection: sa.Connection, now: datetime) -> None:
    connection.execute(
        sa.text(
            "INSERT INTO broker.scenario_clock (now) VALUES (:now) ON CONFLICT (only_row) DO UPDATE SET now = :now"
        ),
        {"now": now},
    )


def _order(table: ScenarioTable) -> str:
    """The ORDER BY terms for a table, so that two dumps of the same rows are identical."""
    if table.name in _FIRST_MATCH:
        return "ctid"
    known = [quoted(column) for column in table.key if column in table.columns]
    return ", ".join(known) or 't::text COLLATE "C"'


def _read_rows(connection: sa.Connection, table: ScenarioTable) -> list[Row]:
    columns = ", ".join(quoted(column) for column in table.columns)
    result = connection.exec_driver_sql(f"SELECT {columns} FROM {table.qualified} t ORDER BY {_order(table)}")  # noqa: S608
    convert = [from_column(table.name, column, sql_type) for column, sql_type in table.columns.items()]
    pairs = list(zip(table.columns, convert, strict=True))
    return [
        {column: to_json(value) for (column, to_json), value in zip(pairs, row, strict=True) if value is not None}
        for row in result
    ]
