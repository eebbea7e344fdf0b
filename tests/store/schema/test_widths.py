"""Columns are as wide as PanDA's, also in a database upgraded from an earlier version and in the archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import PANDA, declared_tables, read_columns, read_migrations
from broker.store.scenarios.load_dump import dump, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema.migrate import upgrade
from tests.conftest import TestServer
from tests.store.small_work import NOW

pytestmark = pytest.mark.slow

#: Types from panda-database, pg_PANDA_TABLE, that differed in an earlier version.
PANDA_TYPES = {
    "jedi_process_lock.vo": "character varying(32)",
    "jedi_process_lock.component": "character varying(56)",
    "jedi_process_lock.lockedby": "character varying(56)",
    "harvester_workers.jobtype": "character varying(52)",
    "harvester_worker_stats.jobtype": "character varying(52)",
    "task_attempts.attemptnr": "integer",
    "mv_jobsactive4_stats.currentpriority": "bigint",
    "filestable4.lfn": "character varying(4000)",
    "filestable4.md5sum": "character varying(36)",
    "jobsdefined4.hs06": "bigint",
    "jobsactive4.memory_leak": "bigint",
    "jobsarchived4.memory_leak_x2": "numeric(14,3)",
}
_LONG = {"varchar": "character varying", "char": "character"}


def types(database: Database) -> dict[str, str]:
    with database.read_snapshot() as connection:
        tables = read_columns(connection, database.names)
    return {f"{table}.{name}": kind for table, columns in tables.items() for name, kind in columns.items()}


def catalogue_name(declared: str) -> str:
    """Translate a type from the schema files into PostgreSQL's catalogue notation."""
    name, bracket, size = declared.replace(", ", ",").partition("(")
    size = "20,0)" if size == "20)" and name == "numeric" else size
    name = {"timestamp": "timestamp without time zone", **_LONG}.get(name, name)
    return name + bracket + size


def test_columns_have_pandas_types(database: Database) -> None:
    actual = types(database)
    assert {name: actual[name] for name in PANDA_TYPES} == PANDA_TYPES


def test_the_files_declare_the_types_that_the_database_has(database: Database) -> None:
    declared_types = {
        f"{shape.name}.{column}": catalogue_name(kind)
        for shape in declared_tables(PANDA).values()
        for column, kind in shape.columns.items()
    }
    assert declared_types == types(database)


def test_the_archive_has_the_types_of_the_live_tables(database: Database) -> None:
    with database.read_snapshot() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
                " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = 'doma_pandaarch' AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped"
            )
        )
        archive_types = {(table, name): kind for table, name, kind in rows}
    source = {"jobsarchived": "jobsarchived4", "filestable_arch": "filestable4"}
    live_types = types(database)
    assert archive_types == {key: live_types[f"{source[key[0]]}.{key[1]}"] for key in archive_types}
    assert len(archive_types) > 100


LEAKS = {"12": 12, "-3.6": -4, "": None, "n/a": None, None: None, "1e3": None}
"""Texts of an earlier version, and the number that each becomes."""


@pytest.fixture(scope="module")
def converted_leaks(test_server: TestServer) -> Iterator[dict[str | None, Any]]:
    """The numbers that a job's memory leaks and their squares have after the upgrade, by their earlier text."""
    with test_server.opened(test_server.create(migrated=False)) as database:
        upgrade(database, panda=[step for step in read_migrations(PANDA) if step.version < 70])
        rows = [{"id": number, "v": text} for number, text in enumerate(LEAKS)]
        with database.begin() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.jobsactive4 (pandaid, memory_leak, memory_leak_x2) VALUES (:id, :v, :v)"
                ),
                rows,
            )
        upgrade(database)
        with database.read_snapshot() as connection:
            leaks = connection.execute(
                sa.text("SELECT memory_leak, memory_leak_x2 FROM doma_panda.jobsactive4 ORDER BY pandaid")
            ).all()
        yield dict(zip(LEAKS, leaks, strict=True))


@pytest.mark.parametrize(("text", "expected"), LEAKS.items())
def test_memory_leaks_stored_as_text_become_numbers(
    converted_leaks: dict[str | None, Any], text: str | None, expected: int | None
) -> None:
    leak, square = converted_leaks[text]
    assert leak == expected
    assert (square is None) == (expected is None)


def test_the_host_of_a_job_moves_to_pandas_column_name(empty_database: Database) -> None:
    upgrade(empty_database, panda=[step for step in read_migrations(PANDA) if step.version < 140])
    with empty_database.begin() as connection:
        connection.execute(sa.text("INSERT INTO doma_panda.jobsactive4 (pandaid, creatorhost) VALUES (1, 'login')"))
    upgrade(empty_database)
    with empty_database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT creationhost FROM doma_panda.jobsactive4")) == "login"


EVENTS: list[dict[str, Any]] = [
    {"jeditaskid": 1, "pandaid": 2, "fileid": 3, "job_processid": 4, "datasetid": 5, "status": 0, "attemptnr": 3},
    {"jeditaskid": 1, "pandaid": 2, "fileid": 3, "job_processid": 5, "status": 10, "error_diag": "x" * 500},
]


def test_scenarios_include_event_ranges(database: Database) -> None:
    assert load(database, Scenario(NOW, {"jedi_events": EVENTS})) == {"jedi_events": 2}
    assert [dict(sorted(row.items())) for row in dump(database, NOW).tables["jedi_events"]] == [
        dict(sorted(row.items())) for row in EVENTS
    ]
    assert load(database, Scenario(NOW, {}), replace=True) == {}
    assert "jedi_events" not in dump(database, NOW).tables
