"""What a test leaves in the database that tests use one after the other does not reach the next one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.conftest import TestServer
from tests.kept_database import KeptDatabase


@pytest.fixture
def kept(test_server: TestServer) -> Iterator[KeptDatabase]:
    """One of its own."""
    kept = KeptDatabase(test_server)
    yield kept
    kept.close()


def run(database: Database, *statements: str) -> None:
    """Each in a transaction of its own, in a session that goes back to the pool."""
    for statement in statements:
        with database.begin() as connection:
            connection.exec_driver_sql(statement)


def scalar(database: Database, query: str) -> object:
    with database.begin() as connection:
        return connection.scalar(sa.text(query))


def test_rows_sequences_statistics_and_settings_are_gone(kept: KeptDatabase) -> None:
    """The database stays the same one."""
    database = kept.take()
    run(
        database,
        "INSERT INTO doma_panda.jedi_tasks (jeditaskid) VALUES (1)",
        "SET work_mem = '1MB'",
        "CREATE TEMPORARY TABLE left_over (a int)",
        "CREATE TABLE broker.left_over (a int)",
        "SELECT setval(seqrelid::regclass, 77) FROM pg_sequence",
        "SELECT pg_advisory_lock(4711)",
        "ANALYZE doma_panda.jedi_tasks",
    )
    kept.give_back()
    after = kept.take()
    assert after is database
    assert scalar(after, "SELECT count(*) FROM doma_panda.jedi_tasks") == 0
    assert scalar(after, "SELECT count(pg_sequence_last_value(seqrelid)) FROM pg_sequence") == 0
    assert scalar(after, "SELECT to_regclass('left_over')") is None
    assert scalar(after, "SELECT to_regclass('broker.left_over')") is None
    assert scalar(after, "SHOW work_mem") != "1MB"
    assert scalar(after, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711") == 0


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
        "ALTER TABLE doma_panda.jedi_tasks ENABLE ROW LEVEL SECURITY",
    ],
)
def test_after_any_other_change_the_next_test_has_a_new_database(kept: KeptDatabase, statement: str) -> None:
    """A test may do anything."""
    database = kept.take()
    run(database, statement)
    kept.give_back()
    assert kept.take().url != database.url


def test_a_database_that_others_use_or_that_was_closed_is_not_kept(kept: KeptDatabase) -> None:
    """Who is still connected might write into the next test."""
    database = kept.take()
    with contextlib.closing(psycopg.connect(database.url)):
        kept.give_back()
    after = kept.take()
    assert after.url != database.url
    after.close()
    kept.give_back()
    assert kept.take().url != after.url


def test_a_template_that_the_server_has_analysed_is_no_difference(test_server: TestServer) -> None:
    """Autovacuum comes round in a long run."""

    class Analysed:
        drop = test_server.drop

        def create(self) -> str:
            url = test_server.create()
            with Database(url) as database:
                run(database, "ANALYZE broker.schema_migrations")
            return url

    kept = KeptDatabase(Analysed())
    database = kept.take()
    kept.give_back()
    assert kept.take() is database
    kept.close()
