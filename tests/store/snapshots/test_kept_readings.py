"""Tables that did not change are not read again, and each change is seen."""

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
from broker.store.snapshots.source_reads import KeptPart, KeptReadings, SourceReader, read_sources
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
def stored(test_server: TestServer) -> Iterator[Database]:
    url = test_server.create()
    with Database(url) as database:
        load(database, Scenario(NOW, grid() | {"jobsactive4": [job(1, "A", "running")]}))
        yield database
    test_server.drop(sa.make_url(url).database or "")


def read(connection: sa.Connection, database: Database, kept: KeptReadings) -> dict[str, RawSource]:
    reader = SourceReader(connection, TableCatalogue.read(connection, database.names), NOW, "live", kept)
    return read_sources(reader, grid_sources(analysis=False))[0]


def test_rows_that_are_the_same_are_the_same_objects(stored: Database) -> None:
    kept = KeptReadings()
    with stored.read_snapshot() as connection:
        first, second = read(connection, stored, kept), read(connection, stored, kept)
    assert {name for name in first for table in first[name].tables if table in TABLES} > {"queues", "links", "storages"}
    for name, source in first.items():
        for table, rows in source.tables.items():
            assert second[name].tables[table] is rows or table not in TABLES, table
        assert second[name].newest == source.newest


@pytest.fixture(scope="module")
def kept() -> KeptReadings:
    """Readings that outlive the test, as in a service: of the tables that another test has changed they are old."""
    return KeptReadings()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("change", ["one row gone", "one row twice"])
def test_a_changed_table_is_read_again(stored: Database, kept: KeptReadings, table: str, change: str) -> None:
    name = stored.names.table(table)
    with stored.engine.connect() as connection, connection.begin() as transaction:
        before = read(connection, stored, kept)
        first = f"ctid = (SELECT min(ctid) FROM {name})"  # names of ours
        keys = connection.scalars(
            sa.text(
                "SELECT conname FROM pg_constraint WHERE conrelid = CAST(:name AS regclass) AND contype IN ('p', 'u')"
            ),
            {"name": name},
        ).all()
        if change == "one row gone":
            done = connection.exec_driver_sql(f"DELETE FROM {name} WHERE {first}")
        else:
            for key in keys:
                connection.exec_driver_sql(f'ALTER TABLE {name} DROP CONSTRAINT "{key}" CASCADE')
            done = connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE {first}")
        assert done.rowcount == 1
        after, fresh = read(connection, stored, kept), read(connection, stored, KeptReadings())
        assert digests(after) == digests(fresh)
        assert digests(after) != digests(before)
        transaction.rollback()


def test_one_value_that_changes_is_seen(stored: Database) -> None:
    kept = KeptReadings()
    with stored.engine.connect() as connection, connection.begin() as transaction:
        read(connection, stored, kept)
        value = f"UPDATE {stored.names.table('network_matrix_kv')} SET value = 1 WHERE key = 'AGIS_closeness'"
        assert connection.exec_driver_sql(value).rowcount == 1
        assert digests(read(connection, stored, kept)) == digests(read(connection, stored, KeptReadings()))
        transaction.rollback()


def test_a_part_is_of_the_same_rows_and_age_only(stored: Database) -> None:
    kept = KeptReadings()
    with stored.read_snapshot() as connection:
        links, again = (read(connection, stored, kept)["links"] for _ in range(2))
        copy = read(connection, stored, KeptReadings())["links"]
    part = KeptPart(links, ("digest", b""))
    assert part.is_of(again)
    assert not part.is_of(copy)
    assert not part.is_of(RawSource("links", links.tables, NOW))
    assert not part.is_of(RawSource("links", {}, links.newest))
