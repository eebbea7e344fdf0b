"""Leases of the parts of an agent coexist within one division, never across divisions."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import agent_runs, leases
from broker.store.service.leases import Lease, LeaseTerms

TERMS = LeaseTerms()


@pytest.fixture
def database(shared_database: Database) -> Database:
    with shared_database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        connection.execute(sa.text("DELETE FROM broker.agent_runs"))
    return shared_database


def acquire(database: Database, name: str, holder: str = "one") -> leases.Acquisition:
    with database.begin() as connection:
        return leases.acquire(connection, name, holder, TERMS)


def acquire_lease(database: Database, name: str, holder: str = "one") -> Lease:
    lease = acquire(database, name, holder).lease
    assert lease is not None
    return lease


def expire(database: Database, name: str, ahead_s: float = 0.0) -> None:
    with database.begin() as connection:
        query = "UPDATE broker.leases SET expires_at = clock_timestamp() + make_interval(secs => :s) WHERE name = :n"
        connection.execute(sa.text(query), {"n": name, "s": ahead_s})


def requestable(database: Database, *names: str) -> list[str]:
    with database.begin() as connection:
        return leases.askable(names, {row.name: row for row in leases.find_all(connection)}, TERMS)


def test_parts_of_one_division_are_leased_independently(database: Database) -> None:
    acquire_lease(database, "a#1/2", "one")
    assert requestable(database, "a#1/2", "a#2/2", "b") == ["a#2/2", "b"]
    acquire_lease(database, "a#2/2", "two")
    assert acquire(database, "a#1/2", "two").lease is None


@pytest.mark.parametrize(
    ("held_name", "requested_name"), [("a#1/2", "a"), ("a", "a#1/2"), ("a#1/2", "a#2/3"), ("a#3/3", "a#1/2")]
)
def test_no_lease_is_granted_alongside_a_lease_of_another_division(
    database: Database, held_name: str, requested_name: str
) -> None:
    first = acquire_lease(database, held_name)
    assert requestable(database, requested_name) == []
    rejection = acquire(database, requested_name, "two")
    assert rejection.lease is None
    assert rejection.row is not None
    assert (rejection.row.name, rejection.row.holder) == (held_name, "one")
    acquire_lease(database, "ab" if requested_name == "a" else "ab#1/7", "two")
    with database.begin() as connection:
        leases.release(connection, first)
    assert requestable(database, requested_name) == [requested_name]
    acquire_lease(database, requested_name, "two")
    assert acquire(database, held_name).lease is None


def test_leases_of_a_previous_division_are_no_longer_in_force(database: Database) -> None:
    old, absurd = acquire_lease(database, "a#1/2"), acquire_lease(database, "a#2/2")
    expire(database, "a#1/2")
    expire(database, "a#2/2", 10_000.0)
    acquire_lease(database, "a", "two")
    with database.begin() as connection:
        assert leases.renew(connection, [old, absurd], TERMS).lost == {old, absurd}
        assert [row.name for row in leases.holders_of(connection, "a")] == ["a"]
    for lease in (old, absurd):
        with database.begin() as connection, pytest.raises(leases.StaleLeaseError):
            leases.fence(connection, lease)


def test_another_division_waits_for_a_commit_whose_fence_is_closed(database: Database) -> None:
    acquire_lease(database, "a#1/2")
    expire(database, "a#1/2")
    with database.begin() as writing:
        # the lock of a closing fence, whose lease has since expired
        writing.execute(sa.text("SELECT FROM broker.leases WHERE name = 'a#1/2' FOR SHARE"))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), database.begin() as other_connection:
            other_connection.execute(sa.text("SET LOCAL lock_timeout = 100"))
            leases.acquire(other_connection, "a#1/3", "two", TERMS)
    acquire_lease(database, "a#1/3", "two")


def test_a_cycle_closes_runs_left_open_by_its_own_part_and_other_divisions(database: Database) -> None:
    def open_run(lease: Lease) -> int:
        with database.begin() as connection:
            return agent_runs.start(connection, "a", lease)

    open_ids = {name: open_run(acquire_lease(database, name)) for name in ("a#1/2", "a#2/2")}
    expire(database, "a#1/2")
    new_lease = acquire_lease(database, "a#1/2", "two")
    current_run = open_run(new_lease)
    assert _open_runs(database) == {open_ids["a#2/2"], current_run}
    for name in ("a#1/2", "a#2/2"):
        expire(database, name)
    undivided_run = open_run(acquire_lease(database, "a", "two"))
    assert _open_runs(database) == {undivided_run}
    expire(database, "a")
    third_run = open_run(acquire_lease(database, "a#1/3", "two"))
    assert _open_runs(database) == {third_run}


def _open_runs(database: Database) -> set[int]:
    with database.begin() as connection:
        return set(connection.execute(sa.text("SELECT id FROM broker.agent_runs WHERE finished_at IS NULL")).scalars())
