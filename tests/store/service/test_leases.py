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


def acquire_lease(database: Database, holder: str, name: str = "a") -> Lease:
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


def passes_fence(database: Database, lease: Lease, *, closing: bool) -> bool:
    try:
        with database.begin() as connection:
            leases.fence(connection, lease, closing=closing)
    except StaleLeaseError as error:
        assert str(lease.epoch) in str(error)
        return False
    return True


def test_a_lease_has_one_holder_and_leases_are_independent(database: Database) -> None:
    first = acquire_lease(database, "one")
    rejection = acquire(database, "two")
    assert rejection.lease is None
    assert rejection.row is not None
    assert (rejection.row.holder, rejection.row.epoch) == ("one", first.epoch)
    assert 13 < rejection.row.expires_in_s <= 15
    assert acquire_lease(database, "two", "b").epoch > first.epoch


def test_a_holder_cannot_acquire_its_own_lease_again(database: Database) -> None:
    acquire_lease(database, "one")
    assert acquire(database, "one").lease is None


def test_a_released_lease_is_granted_at_once_with_a_higher_epoch(database: Database) -> None:
    first = acquire_lease(database, "one")
    with database.begin() as connection:
        assert leases.release(connection, first)
        assert not leases.release(connection, first)
    assert acquire_lease(database, "two").epoch > first.epoch


@pytest.mark.parametrize(("expires_in_s", "is_granted"), [(-0.001, True), (5.0, False), (59.0, False)])
def test_an_expired_lease_is_granted_to_another_holder(
    database: Database, expires_in_s: float, is_granted: bool
) -> None:
    acquire_lease(database, "one")
    set_expiry(database, expires_in_s)
    acquisition = acquire(database, "two")
    assert (acquisition.lease is not None) == is_granted
    assert not acquisition.absurd_expiry


def test_a_lease_with_an_absurd_expiry_is_taken_over_with_an_alarm(database: Database) -> None:
    first = acquire_lease(database, "one")
    set_expiry(database, 61.0)
    acquisition = acquire(database, "two")
    assert acquisition.absurd_expiry
    assert acquisition.lease is not None
    assert acquisition.lease.epoch > first.epoch


def test_a_deleted_row_is_recreated_with_a_higher_epoch(database: Database) -> None:
    first = acquire_lease(database, "one")
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
    assert not passes_fence(database, first, closing=False)
    with database.begin() as connection:
        assert leases.renew(connection, [first], TERMS).lost == {first}
    assert acquire_lease(database, "one").epoch > first.epoch


def test_renewal_needs_holder_and_epoch_and_a_lease_in_force(database: Database) -> None:
    first = acquire_lease(database, "one")

    def is_renewed(lease: Lease) -> bool:
        with database.begin() as connection:
            return bool(leases.renew(connection, [lease], TERMS).renewed)

    set_expiry(database, 3.0)
    assert is_renewed(first)
    with database.begin() as connection:
        row = leases.find(connection, "a")
    assert row is not None
    assert 14 < row.expires_in_s <= 15
    assert not is_renewed(Lease("a", "two", first.epoch))
    assert not is_renewed(Lease("a", "one", first.epoch + 1))
    set_expiry(database, -0.001)
    assert not is_renewed(first)


@pytest.mark.parametrize("closing", [False, True])
def test_only_the_lease_in_force_passes_the_fence(database: Database, closing: bool) -> None:
    first = acquire_lease(database, "one")
    assert passes_fence(database, first, closing=closing)
    assert not passes_fence(database, Lease("a", "two", first.epoch), closing=closing)
    assert not passes_fence(database, Lease("a", "one", first.epoch - 1), closing=closing)
    set_expiry(database, -0.001)
    assert not passes_fence(database, first, closing=closing)
    second = acquire_lease(database, "two")
    assert not passes_fence(database, first, closing=closing)
    assert passes_fence(database, second, closing=closing)


def test_a_slow_writer_can_renew_but_a_takeover_during_its_write_is_detected_at_the_end(database: Database) -> None:
    first = acquire_lease(database, "one")
    with database.begin() as writing:
        leases.fence(writing, first)
        with database.begin() as renewing:
            assert leases.renew(renewing, [first], TERMS).renewed == {first}
        set_expiry(database, -0.001)
        second = acquire_lease(database, "two")
        with pytest.raises(StaleLeaseError):
            leases.fence(writing, first, closing=True)
    assert second.epoch > first.epoch


def test_after_the_closing_fence_a_takeover_waits_for_the_commit(database: Database) -> None:
    first = acquire_lease(database, "one")
    with database.begin() as writing:
        leases.fence(writing, first, closing=True)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), database.begin() as other_connection:
            other_connection.execute(sa.text("SET LOCAL lock_timeout = 100"))
            other_connection.execute(sa.text("UPDATE broker.leases SET epoch = epoch + 1"))


def test_exactly_one_of_many_concurrent_requests_is_granted_and_epochs_rise(database: Database) -> None:
    rounds, requesters = 25, 4
    barrier = threading.Barrier(requesters)
    grants: list[list[int]] = [[] for _ in range(rounds)]

    def acquire_in_rounds(holder: str) -> None:
        with Database(database.url, pool_size=1) as own_database:
            for number in range(rounds):
                barrier.wait(timeout=20)
                lease = acquire(own_database, holder).lease
                barrier.wait(timeout=20)
                if lease is not None:
                    grants[number].append(lease.epoch)
                    with own_database.begin() as connection:
                        leases.release(connection, lease)

    threads = [threading.Thread(target=acquire_in_rounds, args=(f"asker {index}",)) for index in range(requesters)]
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
def test_inconsistent_terms_are_rejected(terms: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        LeaseTerms(**terms)


def test_a_holder_with_a_clock_ten_percent_slow_stops_trusting_before_the_expiry() -> None:
    # A holder with a slow clock trusts its lease for trusted_s of its own, longer seconds.
    assert TERMS.trusted_s / 0.9 < TERMS.length_s
    assert TERMS.length_s / TERMS.trusted_s == pytest.approx(1.1538, abs=1e-4)


def test_no_epoch_is_drawn_while_another_broker_may_still_write_an_earlier_one(database: Database) -> None:
    """Otherwise a row deleted meanwhile would be recreated with the earlier epoch."""
    second: list[leases.Acquisition] = []
    last_epoch = sa.text("SELECT last_value FROM broker.lease_epoch_seq")
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with Database(database.url, pool_size=1) as own_database:
        requester = threading.Thread(target=lambda: second.append(acquire(own_database, "two")))
        with database.begin() as connection:
            first = leases.acquire(connection, "a", "one", TERMS).lease
            assert first is not None
            requester.start()
            with database.autocommit() as observer:
                wait_until(lambda: observer.scalar(waiting) == 1, "the second asks")
                last_drawn_epoch = observer.scalar(last_epoch)
        requester.join(timeout=20)
    assert last_drawn_epoch == first.epoch
    assert [acquisition.lease for acquisition in second] == [None]
