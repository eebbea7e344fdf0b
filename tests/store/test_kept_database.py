"""Nothing that a test leaves in the reused database reaches the next test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests import kept_database
from tests.conftest import TestServer
from tests.kept_database import KeptDatabase

SMALL_SCHEMA = """
CREATE SCHEMA doma_panda;
CREATE SCHEMA broker;
CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint PRIMARY KEY, splitrule text);
CREATE TABLE broker.numbered (id bigint GENERATED ALWAYS AS IDENTITY);
CREATE TABLE broker.schema_migrations (version int);
INSERT INTO broker.schema_migrations SELECT generate_series(1, 20);
CREATE TABLE broker.oldest_writer (release text);
INSERT INTO broker.oldest_writer VALUES ('1.0.0')"""


class SmallServer:
    """Creates databases of a few tables, which takes a tenth of the time, and records which ones were dropped."""

    def __init__(self, test_server: TestServer, template: str) -> None:
        self._test_server, self._template = test_server, template
        self.dropped: list[str] = []

    def create(self) -> str:
        return self._test_server.copy(self._template)

    def drop(self, name: str) -> None:
        self.dropped.append(name)
        self._test_server.drop(name)


@pytest.fixture(scope="module")
def template(test_server: TestServer) -> Iterator[str]:
    """The address of a database with the small schema."""
    url = test_server.create(migrated=False)
    with test_server.opened(url) as database:
        run(database, SMALL_SCHEMA)
        database.close()  # a database is copied only when nobody is connected
        yield url


@pytest.fixture
def small_server(test_server: TestServer, template: str) -> SmallServer:
    return SmallServer(test_server, template)


@pytest.fixture
def reused_database(small_server: SmallServer) -> Iterator[KeptDatabase]:
    """A reused database for this test alone."""
    new_instance = KeptDatabase(small_server)
    yield new_instance
    new_instance.close()


def run(database: Database, *statements: str) -> None:
    """Run each statement in its own transaction, in a session that returns to the pool."""
    for statement in statements:
        with database.begin() as connection:
            connection.exec_driver_sql(statement)


def scalar(database: Database, query: str) -> object:
    with database.begin() as connection:
        return connection.scalar(sa.text(query))


def test_rows_sequences_statistics_and_settings_are_reset(reused_database: KeptDatabase) -> None:
    """The database itself is not replaced."""
    database = reused_database.take()
    run(
        database,
        "INSERT INTO doma_panda.jedi_tasks (jeditaskid) VALUES (1)",
        "SET work_mem = '1MB'",
        "CREATE TEMPORARY TABLE left_over (a int)",
        "CREATE TABLE broker.left_over (a int)",
        "INSERT INTO broker.numbered DEFAULT VALUES",
        "SELECT setval(seqrelid::regclass, 77) FROM pg_sequence",
        "SELECT pg_advisory_lock(4711)",
        "ANALYZE doma_panda.jedi_tasks",
    )
    reused_database.give_back()
    next_database = reused_database.take()
    assert next_database is database
    assert scalar(next_database, "SELECT count(*) FROM doma_panda.jedi_tasks") == 0
    assert scalar(next_database, "SELECT count(pg_sequence_last_value(seqrelid)) FROM pg_sequence") == 0
    assert scalar(next_database, "SELECT to_regclass('left_over')") is None
    assert scalar(next_database, "SELECT to_regclass('broker.left_over')") is None
    assert scalar(next_database, "SHOW work_mem") != "1MB"
    assert scalar(next_database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE doma_panda.jedi_tasks ADD COLUMN left_over int",
        "ALTER TABLE doma_panda.jedi_tasks RENAME COLUMN splitrule TO left_over",
        "DROP TABLE doma_panda.jedi_tasks CASCADE",
        "CREATE INDEX ON doma_panda.jedi_tasks (splitrule)",
        "UPDATE broker.oldest_writer SET release = '9.9.9'",
        "DELETE FROM broker.schema_migrations",
        "TRUNCATE broker.schema_migrations",
        "CREATE FUNCTION broker.left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA left_over",
        "GRANT SELECT ON doma_panda.jedi_tasks TO pg_monitor",
        "GRANT SELECT (splitrule) ON doma_panda.jedi_tasks TO pg_monitor",
        "ALTER TABLE doma_panda.jedi_tasks ALTER COLUMN splitrule SET NOT NULL",
        "ALTER TABLE doma_panda.jedi_tasks ENABLE ROW LEVEL SECURITY",
    ],
)
def test_any_other_change_gives_the_next_test_a_new_database(
    reused_database: KeptDatabase, small_server: SmallServer, statement: str
) -> None:
    """A test may change anything."""
    database = reused_database.take()
    run(database, statement)
    reused_database.give_back()
    assert small_server.dropped == [sa.make_url(database.url).database]


def test_a_database_still_in_use_or_closed_is_not_reused(
    reused_database: KeptDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is still connected might write into the next test."""
    monkeypatch.setattr(kept_database, "LEAVING_S", 0.1)
    database = reused_database.take()
    with contextlib.closing(psycopg.connect(database.url)):
        reused_database.give_back()
    next_database = reused_database.take()
    assert next_database.url != database.url
    next_database.close()
    reused_database.give_back()
    assert reused_database.take().url != next_database.url


def test_a_template_analysed_by_the_server_counts_as_unchanged(small_server: SmallServer) -> None:
    """Autovacuum may analyse the template in a long run."""

    class AnalysingServer:
        drop = small_server.drop

        def create(self) -> str:
            url = small_server.create()
            with Database(url) as database:
                run(database, "ANALYZE broker.schema_migrations")
            return url

    new_instance = KeptDatabase(AnalysingServer())
    database = new_instance.take()
    new_instance.give_back()
    assert new_instance.take() is database
    new_instance.close()
