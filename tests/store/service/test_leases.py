from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import Lease, LeaseTerms, StaleLeaseError
from tests.fault.processes import wait_until

TERMS = LeaseTerms()


def acquire(database: Database, holder: str, name: str = "a") -> leases.Acquisition:
    with database.begin() as connection:
        return leases.acquire(connection, name, holder, TERMS)


def granted(database: Database, holder: str, name: str = "a") -> Lease:
    lease = acquire(database, holder, name).lease
    assert lease is not None
    return lease


def set_expiry(database: Database, seconds: float, name: str = "a") -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE broker.leases SET expires_at = clock_timestamp() + make_interval(secs => :s) WHERE name = :n"
            ),
            {"s": seconds, "n": name},
        )


def fenced(database: Database, lease: Lease, *, closing: bool) -> bool:
    try:
        with database.begin() as connection:
            leases.fence(connection, lease, closing=closing)
    except StaleLeaseError as error:
        assert str(lease.epoch) in str(error)
        return False
    return True


def test_a_lease_has_one_holder_and_leases_do_not_disturb_one_another(database: Database) -> None:
    first = granted(database, "one")
    refused = acquire(database, "two")
    assert refused.lease is None
    assert refused.row is not None
    assert (refused.row.holder, refused.row.epoch) == ("one", first.epoch)
    assert 13 < refused.row.expires_in_s <= 15
    assert granted(database, "two", "b").epoch > first.epoch


def test_the_holder_itself_is_not_granted_its_lease_again(database: Database) -> None:
    granted(database, "one")
    assert acquire(database, "one").lease is None


def test_a_released_lease_is_granted_at_once_with_a_higher_epoch(database: Database) -> None:
    first = granted(database, "one")
    with database.begin() as connection:
        assert leases.release(connection, first)
        assert not leases.release(connection, first)
    assert granted(database, "two").epoch > first.epoch


@pytest.mark.parametrize(("expires_in_s", "granted_to_another"), [(-0.001, True), (5.0, False), (59.0, False)])
def test_a_lease_is_granted_to_another_when_it_has_expired(
    database: Database, expires_in_s: float, granted_to_another: bool
) -> None:
    granted(database, "one")
    set_expiry(database, expires_in_s)
    answer = acquire(database, "two")
    assert (answer.lease is not None) == granted_to_another
    assert not answer.absurd_expiry


def test_an_expiry_that_no_broker_writes_is_taken_over_with_an_alarm(database: Database) -> None:
    first = granted(database, "one")
    set_expiry(database, 61.0)
    answer = acquire(database, "two")
    assert answer.absurd_expiry
    assert answer.lease is not None
    assert answer.lease.epoch > first.epoch


def test_a_deleted_row_comes_back_with_a_higher_epoch(database: Database) -> None:
    first = granted(database, "one")
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
    assert not fenced(database, first, closing=False)
    with database.begin() as connection:
        assert leases.renew(connection, [first], TERMS).lost == {first}
    assert granted(database, "one").epoch > first.epoch


def test_renewal_needs_holder_and_epoch_and_a_lease_in_force(database: Database) -> None:
    first = granted(database, "one")

    def renewed(lease: Lease) -> bool:
        with database.begin() as connection:
            return bool(leases.renew(connection, [lease], TERMS).renewed)

    set_expiry(database, 3.0)
    assert renewed(first)
    with database.begin() as connection:
        row = leases.find(connection, "a")
    assert row is not None
    assert 14 < row.expires_in_s <= 15
    assert not renewed(Lease("a", "two", first.epoch))
    assert not renewed(Lease("a", "one", first.epoch + 1))
    set_expiry(database, -0.001)
    assert not renewed(first)


@pytest.mark.parametrize("closing", [False, True])
def test_the_fence_lets_only_the_lease_in_force_through(database: Database, closing: bool) -> None:
    first = granted(database, "one")
    assert fenced(database, first, closing=closing)
    assert not fenced(database, Lease("a", "two", first.epoch), closing=closing)
    assert not fenced(database, Lease("a", "one", first.epoch - 1), closing=closing)
    set_expiry(database, -0.001)
    assert not fenced(database, first, closing=closing)
    second = granted(database, "two")
    assert not fenced(database, first, closing=closing)
    assert fenced(database, second, closing=closing)


def test_a_slow_writer_can_renew_but_a_take_over_during_its_write_is_seen_at_the_end(database: Database) -> None:
    first = granted(database, "one")
    with database.begin() as writing:
        leases.fence(writing, first)
        with database.begin() as other:
            assert leases.renew(other, [first], TERMS).renewed == {first}
        set_expiry(database, -0.001)
        second = granted(database, "two")
        with pytest.raises(StaleLeaseError):
            leases.fence(writing, first, closing=True)
    assert second.epoch > first.epoch


def test_after_the_closing_fence_a_take_over_waits_for_the_commit(database: Database) -> None:
    first = granted(database, "one")
    with database.begin() as writing:
        leases.fence(writing, first, closing=True)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), database.begin() as other:
            other.execute(sa.text("SET LOCAL lock_timeout = 100"))
            other.execute(sa.text("UPDATE broker.leases SET epoch = epoch + 1"))


def test_of_many_who_ask_at_once_exactly_one_is_granted_and_epochs_rise(database: Database) -> None:
    rounds, askers = 25, 4
    barrier = threading.Barrier(askers)
    grants: list[list[int]] = [[] for _ in range(rounds)]
    last: list[Lease] = []

    def ask(holder: str) -> None:
        with Database(database.url, pool_size=1) as own:
            for number in range(rounds):
                barrier.wait(timeout=20)
                lease = acquire(own, holder).lease
                barrier.wait(timeout=20)
                if lease is not None:
                    grants[number].append(lease.epoch)
                    with own.begin() as connection:
                        leases.release(connection, lease)
                    last.append(lease)

    threads = [threading.Thread(target=ask, args=(f"asker {index}",)) for index in range(askers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [len(epochs) for epochs in grants] == [1] * rounds
    epochs = [epochs[0] for epochs in grants]
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize(
    "terms",
    [
        {"length_s": 0.0},
        {"distrust_before_s": 0.0},
        {"distrust_before_s": 15.0},
        {"length_s": 61.0},
        {"renew_every_s": 13.0},
        {"renew_every_s": 0.0},
    ],
)
def test_terms_that_cannot_work_are_refused(terms: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        LeaseTerms(**terms)


def test_a_clock_ten_percent_slow_still_stops_trusting_before_the_expiry() -> None:
    # A holder whose clock runs slow believes for trusted_s of its own seconds, which are longer.
    assert TERMS.trusted_s / 0.9 < TERMS.length_s
    assert TERMS.length_s / TERMS.trusted_s == pytest.approx(1.1538, abs=1e-4)


def test_an_epoch_is_drawn_by_nobody_while_another_may_still_write_an_earlier_one(database: Database) -> None:
    """Else a row that is deleted meanwhile would come back with the earlier epoch."""
    second: list[leases.Acquisition] = []
    last_epoch = sa.text("SELECT last_value FROM broker.lease_epoch_seq")
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with Database(database.url, pool_size=1) as own:
        asking = threading.Thread(target=lambda: second.append(acquire(own, "two")))
        with database.begin() as connection:
            first = leases.acquire(connection, "a", "one", TERMS).lease
            assert first is not None
            asking.start()
            with database.autocommit() as watching:
                wait_until(lambda: watching.scalar(waiting) == 1, "the second asks")
                drawn = watching.scalar(last_epoch)
        asking.join(timeout=20)
    assert drawn == first.epoch
    assert [answer.lease for answer in second] == [None]
