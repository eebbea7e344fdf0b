"""Leases of the parts of an agent: side by side within a division, never beside those of another."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import agent_runs, leases
from broker.store.service.leases import Lease, LeaseTerms

TERMS = LeaseTerms()


@pytest.fixture
def database(shared: Database) -> Database:
    with shared.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        connection.execute(sa.text("DELETE FROM broker.agent_runs"))
    return shared


def acquire(database: Database, name: str, holder: str = "one") -> leases.Acquisition:
    with database.begin() as connection:
        return leases.acquire(connection, name, holder, TERMS)


def granted(database: Database, name: str, holder: str = "one") -> Lease:
    lease = acquire(database, name, holder).lease
    assert lease is not None
    return lease


def expire(database: Database, name: str, ahead_s: float = 0.0) -> None:
    with database.begin() as connection:
        query = "UPDATE broker.leases SET expires_at = clock_timestamp() + make_interval(secs => :s) WHERE name = :n"
        connection.execute(sa.text(query), {"n": name, "s": ahead_s})


def askable(database: Database, *names: str) -> list[str]:
    with database.begin() as connection:
        return leases.askable(names, {row.name: row for row in leases.find_all(connection)}, TERMS)


def test_parts_of_one_division_are_held_side_by_side(database: Database) -> None:
    granted(database, "a#1/2", "one")
    assert askable(database, "a#1/2", "a#2/2", "b") == ["a#2/2", "b"]
    granted(database, "a#2/2", "two")
    assert acquire(database, "a#1/2", "two").lease is None


@pytest.mark.parametrize(("held", "wanted"), [("a#1/2", "a"), ("a", "a#1/2"), ("a#1/2", "a#2/3"), ("a#3/3", "a#1/2")])
def test_no_lease_is_granted_beside_one_of_another_division(database: Database, held: str, wanted: str) -> None:
    first = granted(database, held)
    assert askable(database, wanted) == []
    refused = acquire(database, wanted, "two")
    assert refused.lease is None
    assert refused.row is not None
    assert (refused.row.name, refused.row.holder) == (held, "one")
    granted(database, "ab" if wanted == "a" else "ab#1/7", "two")
    with database.begin() as connection:
        leases.release(connection, first)
    assert askable(database, wanted) == [wanted]
    granted(database, wanted, "two")
    assert acquire(database, held).lease is None


def test_what_was_held_of_another_division_is_in_force_no_more(database: Database) -> None:
    old, absurd = granted(database, "a#1/2"), granted(database, "a#2/2")
    expire(database, "a#1/2")
    expire(database, "a#2/2", 10_000.0)
    granted(database, "a", "two")
    with database.begin() as connection:
        assert leases.renew(connection, [old, absurd], TERMS).lost == {old, absurd}
        assert [row.name for row in leases.holders_of(connection, "a")] == ["a"]
    for lease in (old, absurd):
        with database.begin() as connection, pytest.raises(leases.StaleLeaseError):
            leases.fence(connection, lease)


def test_another_division_waits_for_a_commit_whose_fence_is_closed(database: Database) -> None:
    granted(database, "a#1/2")
    expire(database, "a#1/2")
    with database.begin() as writing:
        # the lock of a closing fence; the lease has expired since
        writing.execute(sa.text("SELECT FROM broker.leases WHERE name = 'a#1/2' FOR SHARE"))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), database.begin() as other:
            other.execute(sa.text("SET LOCAL lock_timeout = 100"))
            leases.acquire(other, "a#1/3", "two", TERMS)
    granted(database, "a#1/3", "two")


def test_a_cycle_closes_what_its_own_part_and_other_divisions_left_open(database: Database) -> None:
    def opened(lease: Lease) -> int:
        with database.begin() as connection:
            return agent_runs.start(connection, "a", lease)

    left = {name: opened(granted(database, name)) for name in ("a#1/2", "a#2/2")}
    expire(database, "a#1/2")
    again = granted(database, "a#1/2", "two")
    current = opened(again)
    assert _open_runs(database) == {left["a#2/2"], current}
    for name in ("a#1/2", "a#2/2"):
        expire(database, name)
    whole = opened(granted(database, "a", "two"))
    assert _open_runs(database) == {whole}
    expire(database, "a")
    third = opened(granted(database, "a#1/3", "two"))
    assert _open_runs(database) == {third}


def _open_runs(database: Database) -> set[int]:
    with database.begin() as connection:
        return set(connection.execute(sa.text("SELECT id FROM broker.agent_runs WHERE finished_at IS NULL")).scalars())
