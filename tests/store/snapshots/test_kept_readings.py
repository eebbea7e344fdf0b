"""Unchanged tables are not read again, and every change is detected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from broker.snapshot.raw import RawSource
from broker.snapshot.source import TableRead
from broker.snapshot.source_list import grid_sources
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.snapshots.source_reads import CachedPart, ReadingCache, SourceReader, read_sources
from tests.conftest import TestServer
from tests.store.snapshots.test_source_reads import NOW, digests, grid, job

TABLES = sorted(
    {
        read.table
        for source in grid_sources(analysis=False)
        for read in source.reads
        if isinstance(read, TableRead) and read.table in grid()
    }
)


@pytest.fixture(scope="module")
def stored_grid(test_server: TestServer) -> Iterator[Database]:
    with test_server.opened(test_server.create()) as database:
        load(database, Scenario(NOW, grid() | {"jobsactive4": [job(1, "A", "running")]}))
        yield database


def read(connection: sa.Connection, database: Database, cached: ReadingCache) -> dict[str, RawSource]:
    reader = SourceReader(connection, TableCatalogue.read(connection, database.names), NOW, "live", cached)
    return read_sources(reader, grid_sources(analysis=False))[0]


def test_unchanged_rows_are_the_same_objects(stored_grid: Database) -> None:
    cached = ReadingCache()
    with stored_grid.read_snapshot() as connection:
        first, second = read(connection, stored_grid, cached), read(connection, stored_grid, cached)
    assert {name for name in first for table in first[name].tables if table in TABLES} > {"queues", "links", "storages"}
    for name, source in first.items():
        for table, rows in source.tables.items():
            assert second[name].tables[table] is rows or table not in TABLES, table
        assert second[name].newest == source.newest


@pytest.fixture(scope="module")
def old_readings() -> ReadingCache:
    """Readings that outlive the test, as in a service: they are stale for tables that another test changed."""
    return ReadingCache()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("change", ["one row gone", "one row twice"])
def test_a_changed_table_is_read_again(
    stored_grid: Database, old_readings: ReadingCache, table: str, change: str
) -> None:
    name = stored_grid.names.table(table)
    with stored_grid.engine.connect() as connection, connection.begin() as transaction:
        before = read(connection, stored_grid, old_readings)
        first_row = f"ctid = (SELECT min(ctid) FROM {name})"
        keys = connection.scalars(
            sa.text(
                "SELECT conname FROM pg_constraint WHERE conrelid = CAST(:name AS regclass) AND contype IN ('p', 'u')"
            ),
            {"name": name},
        ).all()
        if change == "one row gone":
            result = connection.exec_driver_sql(f"DELETE FROM {name} WHERE {first_row}")
        else:
            for key in keys:
                connection.exec_driver_sql(f'ALTER TABLE {name} DROP CONSTRAINT "{key}" CASCADE')
            result = connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE {first_row}")
        assert result.rowcount == 1
        after, fresh = read(connection, stored_grid, old_readings), read(connection, stored_grid, ReadingCache())
        assert digests(after) == digests(fresh)
        assert digests(after) != digests(before)
        transaction.rollback()


def test_a_single_changed_value_is_detected(stored_grid: Database) -> None:
    cached = ReadingCache()
    with stored_grid.engine.connect() as connection, connection.begin() as transaction:
        read(connection, stored_grid, cached)
        change = f"UPDATE {stored_grid.names.table('network_matrix_kv')} SET value = 1 WHERE key = 'AGIS_closeness'"
        assert connection.exec_driver_sql(change).rowcount == 1
        assert digests(read(connection, stored_grid, cached)) == digests(read(connection, stored_grid, ReadingCache()))
        transaction.rollback()


def test_a_part_belongs_only_to_the_same_rows_and_age(stored_grid: Database) -> None:
    cached = ReadingCache()
    with stored_grid.read_snapshot() as connection:
        links, same_links = (read(connection, stored_grid, cached)["links"] for _ in range(2))
        other_links = read(connection, stored_grid, ReadingCache())["links"]
    part = CachedPart(links, ("digest", b""))
    assert part.is_of(same_links)
    assert not part.is_of(other_links)
    assert not part.is_of(RawSource("links", links.tables, NOW))
    assert not part.is_of(RawSource("links", {}, links.newest))
