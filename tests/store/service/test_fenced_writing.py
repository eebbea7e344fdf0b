"""Transactions under a lease are rejected at the start or before the commit and never stay idle for long."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.read_only import ReadOnlyDatabase
from broker.store.service import leases
from broker.store.service.leases import Lease, LeaseTerms, StaleLeaseError, writing

WRITE = sa.text("CREATE TABLE broker.written (at integer)")
IDLE = "idle_in_transaction_session_timeout"


@pytest.fixture
def lease(database: Database) -> Lease:
    with database.begin() as connection:
        lease = leases.acquire(connection, "a", "one", LeaseTerms()).lease
    assert lease is not None
    return lease


def expire(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))


def take_over(database: Database) -> None:
    expire(database)
    with database.begin() as connection:
        assert leases.acquire(connection, "a", "two", LeaseTerms()).lease is not None


def is_written(database: Database) -> bool:
    with database.read_snapshot() as connection:
        return connection.scalar(sa.text("SELECT to_regclass('broker.written')")) is not None


def test_a_write_under_a_lease_is_committed(database: Database, lease: Lease) -> None:
    with writing(database, lease) as connection:
        connection.execute(WRITE)
    assert is_written(database)


@pytest.mark.parametrize("lose", [expire, take_over])
def test_a_lost_lease_prevents_entering_the_block(
    database: Database, lease: Lease, lose: Callable[[Database], None]
) -> None:
    lose(database)
    entered = False
    with pytest.raises(StaleLeaseError), writing(database, lease):
        entered = True
    assert not entered


@pytest.mark.parametrize("lose", [expire, take_over])
@pytest.mark.parametrize("leave", ["end", "return"])
def test_a_write_during_which_the_lease_is_lost_is_not_committed(
    database: Database, lease: Lease, lose: Callable[[Database], None], leave: str
) -> None:
    def write() -> None:
        with writing(database, lease) as connection:
            connection.execute(WRITE)
            lose(database)
            if leave == "return":
                return

    with pytest.raises(StaleLeaseError):
        write()
    assert not is_written(database)


def test_a_block_that_raises_writes_nothing_and_propagates_its_error(database: Database, lease: Lease) -> None:
    with pytest.raises(ZeroDivisionError), writing(database, lease) as connection:
        connection.execute(WRITE)
        expire(database)
        raise ZeroDivisionError
    assert not is_written(database)


@pytest.mark.parametrize(
    ("idle_within_s", "inside"), [(None, "5s"), (3.0, "3s"), (5.0, "5s"), (60.0, "1min"), (float("inf"), "1d")]
)
def test_the_idle_time_of_a_transaction_is_limited_most_before_its_commit(
    database: Database,
    lease: Lease,
    monkeypatch: pytest.MonkeyPatch,
    idle_within_s: float | None,
    inside: str,
) -> None:
    timeouts: list[tuple[str, str]] = []
    fence = leases.fence

    def limits(connection: sa.Connection) -> None:
        values = [connection.scalar(sa.text(f"SHOW {name}")) for name in ("lock_timeout", IDLE)]
        timeouts.append((str(values[0]), str(values[1])))

    def recording_fence(connection: sa.Connection, lease: Lease, *, closing: bool = False) -> None:
        fence(connection, lease, closing=closing)
        limits(connection)

    monkeypatch.setattr(leases, "fence", recording_fence)
    options = {} if idle_within_s is None else {"idle_within_s": idle_within_s}
    with writing(database, lease, **options) as connection:
        limits(connection)
    assert timeouts == [("5s", inside), ("5s", inside), ("5s", "3s" if inside == "3s" else "5s")]


def test_a_read_only_database_cannot_write(database: Database) -> None:
    read_only = ReadOnlyDatabase(database)
    assert {name for name in dir(read_only) if not name.startswith("_")} == {"names", "read_snapshot"}
    assert (read_only.names, repr(read_only)) == (database.names, repr(database))
    for statement in (
        WRITE,
        sa.text("SET TRANSACTION READ WRITE"),
        sa.text("SELECT nextval('broker.lease_epoch_seq')"),
    ):
        with pytest.raises(sa.exc.DBAPIError) as caught, read_only.read_snapshot() as connection:
            connection.execute(sa.text("SELECT 1"))
            connection.execute(statement)
        assert isinstance(
            caught.value.orig, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.ActiveSqlTransaction
        )
