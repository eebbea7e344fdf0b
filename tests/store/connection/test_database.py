from __future__ import annotations

from typing import Any

import psycopg
import psycopg.types
import pytest
import sqlalchemy as sa

from broker.store.connection import database as database_module
from broker.store.connection.address import parse_url
from broker.store.connection.database import Database
from broker.store.connection.errors import (
    BadDatabaseUrl,
    CommitOutcomeUnknown,
    DatabaseUnavailable,
    ServerTooOld,
)
from broker.store.connection.transient import TRANSIENT_ERRORS
from tests.fault.processes import wait_until


def test_a_transaction_is_committed_at_the_end_of_the_block(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("INSERT INTO broker.dataset_replicas (scope, name, rse) VALUES ('s', 'n', 'r')"))
    with database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.dataset_replicas")) == 1


def test_a_transaction_is_rolled_back_when_the_block_raises(database: Database) -> None:
    with pytest.raises(KeyError), database.begin() as connection:
        connection.execute(sa.text("INSERT INTO broker.dataset_replicas (scope, name, rse) VALUES ('s', 'n', 'r')"))
        raise KeyError("stop")
    with database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.dataset_replicas")) == 0


def test_a_read_snapshot_sees_one_instant_and_cannot_write(database: Database) -> None:
    count = sa.text("SELECT count(*) FROM broker.dataset_replicas")
    insert = sa.text("INSERT INTO broker.dataset_replicas (scope, name, rse) VALUES ('s', 'n', 'r')")
    with database.read_snapshot() as reader:
        assert reader.scalar(count) == 0
        with database.begin() as writer:
            writer.execute(insert)
        assert reader.scalar(count) == 0
    with pytest.raises(sa.exc.DBAPIError, match="read-only"), database.read_snapshot() as reader:
        reader.execute(insert)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.dataset_replicas"))


def test_the_connection_returns_to_ordinary_transactions_after_a_snapshot(database: Database) -> None:
    with database.read_snapshot() as reader:
        assert reader.scalar(sa.text("SHOW transaction_isolation")) == "repeatable read"
        assert reader.scalar(sa.text("SHOW transaction_read_only")) == "on"
    with database.begin() as writer:
        assert writer.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
        assert writer.scalar(sa.text("SHOW transaction_read_only")) == "off"


def test_a_new_connection_looks_up_no_types(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup in the catalogue would delay a command that reads one row."""

    def fetch(*arguments: object) -> None:
        raise AssertionError(f"looked up: {arguments[1:]}")

    monkeypatch.setattr(psycopg.types.TypeInfo, "fetch", fetch)
    with database.sibling("another", 1) as sibling, sibling.begin() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


def test_the_raw_connection_uses_the_same_transaction(database: Database) -> None:
    with database.begin() as connection:
        raw = database.raw(connection)
        assert isinstance(raw, psycopg.Connection)
        with raw.cursor().copy("COPY broker.dataset_replicas (scope, name, rse) FROM STDIN") as copy:
            copy.write_row(("s", "it's\na %s name", "r"))
        assert connection.scalar(sa.text("SELECT name FROM broker.dataset_replicas")) == "it's\na %s name"


def test_an_unreachable_server_is_named_without_the_password() -> None:
    database = Database("postgresql://me:secret@localhost:1/nothing")
    with pytest.raises(DatabaseUnavailable) as caught, database.begin():
        pass
    assert "localhost" in str(caught.value)
    assert "--db" in str(caught.value)
    assert "secret" not in str(caught.value)
    database.close()


def test_a_connection_lost_in_a_transaction_is_unavailable_and_the_next_one_works(database: Database) -> None:
    with (
        pytest.raises(DatabaseUnavailable, match="nothing of the transaction was kept"),
        database.begin() as connection,
    ):
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        with database.begin() as killer:
            killer.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        connection.execute(sa.text("SELECT 1"))
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


def test_a_connection_killed_between_transactions_is_replaced(database: Database) -> None:
    with database.begin() as connection:
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    other_database = Database(database.url)
    with other_database.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    other_database.close()
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT pg_backend_pid()")) != pid


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("postgresql://u@h/d", True),
        ("postgres://u@h/d", True),
        ("postgresql+psycopg://u@h/d", True),
        ("postgresql://u@/d?host=/run/pg", True),
        ("postgresql+asyncpg://u@h/d", False),
        ("sqlite:///x", False),
        ("no address", False),
        ("", False),
    ],
)
def test_only_addresses_of_postgresql_are_accepted(url: str, accepted: bool) -> None:
    if accepted:
        assert parse_url(url).drivername == "postgresql+psycopg"
    else:
        with pytest.raises(BadDatabaseUrl):
            parse_url(url)


def test_the_server_is_recent_enough(database: Database) -> None:
    assert database.server_version() >= 15


def test_a_connection_lost_during_commit_has_its_own_error(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(
            """
            CREATE TABLE deadly (x int);
            CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON deadly DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION die();
            """
        )
    with pytest.raises(CommitOutcomeUnknown, match="read back what was written"), database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO deadly VALUES (1)")
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM deadly")) == 0


def test_a_constraint_failing_at_commit_is_not_a_lost_connection(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE single (x int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(sa.exc.IntegrityError), database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO single VALUES (1), (1)")


def test_an_old_server_is_rejected(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "OLDEST_SERVER", 99)
    with pytest.raises(ServerTooOld, match="use PostgreSQL 99 or newer"):
        database.server_version()


def test_a_connection_in_use_when_the_database_closes_is_closed_on_return(database: Database) -> None:
    own_database = Database(database.url)
    with own_database.begin() as connection:
        raw = own_database.raw(connection)
        own_database.close()
        assert not raw.closed
        assert connection.scalar(sa.text("SELECT 1")) == 1
    assert raw.closed


def test_a_new_connection_whose_initial_queries_fail_is_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_database = Database(database.url)
    driver_connections: list[psycopg.Connection[Any]] = []

    def fail(dialect: object, connection: sa.Connection) -> None:
        driver_connections.append(connection.connection.driver_connection)
        raise RuntimeError("first question")

    with own_database:
        monkeypatch.setattr(type(own_database.engine.dialect), "initialize", fail)
        with pytest.raises(RuntimeError, match="first question"), own_database.begin():
            pass
    assert [driver_connection.closed for driver_connection in driver_connections] == [True]


@pytest.mark.parametrize("raw", [False, True])
def test_a_session_ended_by_a_transaction_limit_is_unavailable(database: Database, raw: bool) -> None:
    limits = "SELECT name FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
    with database.begin() as connection:
        # the second setting exists since PostgreSQL 17
        limit_names = [str(row.name) for row in connection.execute(sa.text(limits))]
    assert len(limit_names) == (2 if database.server_version() >= 17 else 1)
    for limit in limit_names:
        _check_limit(database, limit, raw)


def _check_limit(database: Database, limit: str, raw: bool) -> None:
    session_is_gone = sa.text("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = :pid")
    with (
        pytest.raises(DatabaseUnavailable, match="nothing of the transaction was kept") as caught,
        database.begin() as connection,
    ):
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        connection.execute(sa.text(f"SET LOCAL {limit} = '20ms'"))
        with database.sibling("another", 1) as sibling:
            wait_until(lambda: _is_true(sibling, session_is_gone, pid), "the server ends the session")
        if raw:
            database.raw(connection).execute("SELECT 1")
        else:
            connection.execute(sa.text("SELECT 1"))
    cause = caught.value.__cause__
    assert isinstance(getattr(cause, "orig", cause), psycopg.InternalError)
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


@pytest.mark.parametrize("kind", [psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.TransactionTimeout])
def test_errors_of_ended_transactions_are_transient(kind: type[psycopg.Error]) -> None:
    assert issubclass(kind, TRANSIENT_ERRORS)


def _is_true(database: Database, query: sa.TextClause, pid: int | None) -> bool:
    with database.begin() as connection:
        return bool(connection.scalar(query, {"pid": pid}))
