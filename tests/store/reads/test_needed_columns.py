"""Columns of PanDA's tables that decisions need: a missing or changed column is reported and its source is not used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.snapshot.source_list import GRID_SOURCES
from broker.snapshot.sources.jobs import JOBS
from broker.store.connection.database import Database
from broker.store.connection.panda_columns import ColumnFault, PandaColumns, faults_of
from broker.store.connection.tables import TableCatalogue
from broker.store.reads import needed_columns
from broker.store.reads.needed_columns import WORK_COLUMNS, needed_faults
from broker.store.snapshots.source_reads import SourceReader, read_sources
from tests.store.snapshots.test_source_reads import NOW

READS = Path(needed_columns.__file__).parent
NEEDED = PandaColumns("t", ("a", "b", "c"), optional=("c",))
DECLARED = {"a": "varchar(52)", "b": "bigint", "c": "timestamp"}


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        ({"a": "text", "b": "numeric(20,0)", "c": "timestamp without time zone"}, []),
        ({"a": "text", "b": "integer", "more": "text"}, []),
        ({"a": "jsonb", "b": "integer"}, []),
        ({"a": "text"}, ["column t.b is gone"]),
        ({"a": "text", "b": "text"}, ["column t.b is text, not bigint"]),
        ({"a": "text", "b": "bigint", "c": "text"}, ["column t.c is text, not timestamp"]),
        ({}, ["table t is gone"]),
    ],
)
def test_faults_of_needed_and_optional_columns(columns: dict[str, str], faults: list[str]) -> None:
    assert list(map(str, faults_of(NEEDED, columns, DECLARED))) == faults


def test_a_table_may_be_optional() -> None:
    assert faults_of(PandaColumns("t", ("a",), table_optional=True), {}, {}) == ()
    assert faults_of(PandaColumns("t", ("a", "b"), table_optional=True), {"a": "text"}, {}) == (ColumnFault("t", "b"),)


def test_a_fresh_database_has_all_needed_columns(database: Database) -> None:
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
    assert not needed_faults(catalogue, "live") and not needed_faults(catalogue, "panda")


def test_every_read_of_work_is_listed() -> None:
    """The list covers each read of a PanDA table for decisions; requests for feeds decide nothing."""
    needed_names, other_files = set(), []
    for file in READS.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                needed_names |= {ast.unparse(node.args[0])} if node.func.attr == "needed" else set()
                other_files += [file.name] if node.func.attr == "source" else []
    assert set(other_files) == {"replica_requests.py"}
    assert len(needed_names) == len(WORK_COLUMNS)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("jobsactive4 RENAME COLUMN gshare TO other", "column jobsactive4.gshare is gone"),
        ("jobsactive4 ALTER COLUMN diskio TYPE text", "column jobsactive4.diskio is text, not integer"),
    ],
)
def test_a_source_with_a_changed_column_is_not_used(
    make_database: Callable[..., Database], change: str, fault: str
) -> None:
    database = make_database()
    with database.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE doma_panda.{change}")
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        sources, unread = read_sources(SourceReader(connection, catalogue, NOW), GRID_SOURCES)
        assert (unread[JOBS.name].state, unread[JOBS.name].detail) == ("changed", fault)
        assert not sources[JOBS.name].row_count
        _, unread = read_sources(SourceReader(connection, catalogue, NOW, "panda"), (JOBS,))
        assert not unread
    live = needed_faults(catalogue, "live")
    assert {needed.who for needed in live} >= {"source jobs"} and {str(needed.fault) for needed in live} == {fault}
    assert "source jobs" not in {needed.who for needed in needed_faults(catalogue, "panda")}
