from __future__ import annotations

import logging
import threading

import pytest
import sqlalchemy as sa

from agents.service import fault_points, leadership
from agents.service.leadership import LeaseKeeper, holder_name
from broker.store.connection import database as database_module
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.fault.silent_proxy import silent_proxy

TERMS = LeaseTerms()


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def keeper(database: Database, clock: Clock, holder: str = "one") -> LeaseKeeper:
    return LeaseKeeper(database, holder, TERMS, clock)


def expires_in_s(database: Database) -> float:
    with database.begin() as connection:
        row = leases.find(connection, "a")
    assert row is not None
    return row.expires_in_s


def set_expiry(database: Database, seconds: float) -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.leases SET expires_at = clock_timestamp() + make_interval(secs => :s)"),
            {"s": seconds},
        )


@pytest.mark.parametrize(("passed_s", "believes"), [(0.0, True), (12.99, True), (13.0, False), (1000.0, False)])
def test_a_holder_stops_believing_two_seconds_before_the_expiry(
    database: Database, clock: Clock, passed_s: float, believes: bool
) -> None:
    holder = keeper(database, clock)
    lease = holder.acquire("a")
    assert lease is not None
    clock.s += passed_s
    assert holder.trusts(lease) == believes
    assert (holder.lease("a") == lease) == believes


def test_trust_counts_from_the_moment_the_request_was_sent(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = keeper(database, clock)
    original = leases.acquire

    def slow(*arguments: object) -> leases.Acquisition:
        clock.s += 12.0
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "acquire", slow)
    lease = holder.acquire("a")
    assert lease is not None
    assert holder.trusts(lease)
    clock.s += 1.0
    assert not holder.trusts(lease)


def test_trust_in_a_renewal_counts_from_the_moment_of_the_request(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = keeper(database, clock)
    lease = holder.acquire("a")
    assert lease is not None
    original = leases.renew

    def slow(*arguments: object) -> leases.Renewal:
        answer = original(*arguments)  # type: ignore[arg-type]
        clock.s += 4.0
        return answer

    monkeypatch.setattr(leases, "renew", slow)
    clock.s += 5.0
    requested_at = clock.s
    holder.tick()
    clock.s = requested_at + 12.99
    assert holder.trusts(lease)
    clock.s = requested_at + 13.0
    assert not holder.trusts(lease)


@pytest.mark.parametrize(("passed_s", "is_renewed"), [(4.99, False), (5.0, True), (12.99, True)])
def test_a_lease_is_renewed_when_it_is_due(database: Database, clock: Clock, passed_s: float, is_renewed: bool) -> None:
    holder = keeper(database, clock)
    lease = holder.acquire("a")
    assert lease is not None
    set_expiry(database, 3.0)
    clock.s += passed_s
    holder.tick()
    assert (expires_in_s(database) > 10) == is_renewed
    assert holder.trusts(lease)
    clock.s += 12.9 if is_renewed else 0.0
    assert holder.trusts(lease)


def test_a_lease_that_another_keeper_now_holds_is_dropped(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    holder, rival = keeper(database, clock), keeper(database, clock, "two")
    lease = holder.acquire("a")
    assert lease is not None
    set_expiry(database, -0.001)
    assert rival.acquire("a") is not None
    clock.s += 5.0
    holder.tick()
    assert not holder.trusts(lease)
    assert "lease lost" in caplog.text


def test_a_lease_that_was_not_renewed_in_time_is_not_renewed_later(database: Database, clock: Clock) -> None:
    holder = keeper(database, clock)
    lease = holder.acquire("a")
    clock.s += 13.0
    set_expiry(database, 3.0)
    holder.tick()
    assert expires_in_s(database) < 3.1
    assert lease is not None
    assert not holder.trusts(lease)


def test_a_wanted_lease_is_taken_when_it_becomes_free_and_the_election_is_reported(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    holder, rival = keeper(database, clock), keeper(database, clock, "two")
    elections: list[str] = []
    rival.want("a", lambda: elections.append("a"))
    assert holder.acquire("a") is not None
    rival.tick()
    assert elections == []
    holder.stop()
    rival.tick()
    rival.tick()
    assert elections == ["a"]
    assert rival.lease("a") is not None


def test_an_absurd_expiry_is_an_alarm(database: Database, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    holder, rival = keeper(database, clock), keeper(database, clock, "two")
    assert holder.acquire("a") is not None
    set_expiry(database, 3600.0)
    assert rival.acquire("a") is not None
    (alarm,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "too far ahead" in alarm.getMessage()
    assert alarm.__dict__["fields"]["holder"] == "one"


def test_without_a_database_the_keeper_goes_on_and_trust_runs_out(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    holder = keeper(database, clock)
    holder.want("b")
    lease = holder.acquire("a")
    assert lease is not None

    def fail(*_: object) -> bool:
        raise sa.exc.OperationalError("", {}, Exception("gone"))

    monkeypatch.setattr(leases, "renew", fail)
    monkeypatch.setattr(leases, "acquire", fail)
    clock.s += 6.0
    holder.tick()
    assert holder.trusts(lease)
    clock.s += 7.0
    holder.tick()
    assert not holder.trusts(lease)
    assert "leases not renewed: database" in caplog.text
    assert "lease not available: database" in caplog.text


def test_the_fault_point_during_a_renewal_is_reached(database: Database, clock: Clock) -> None:
    holder = keeper(database, clock)
    holder.acquire("a")
    calls: list[bool] = []
    fault_points.arm_action("during_renew", lambda: calls.append(True))
    clock.s += 5.0
    try:
        holder.tick()
    finally:
        fault_points.disarm()
    assert calls == [True]


def test_the_thread_takes_a_lease_and_stop_gives_it_up(database: Database) -> None:
    holder = LeaseKeeper(database, "one", TERMS)
    elected = threading.Event()
    holder.want("a", elected.set)
    holder.start()
    assert elected.wait(timeout=10)
    holder.stop()
    assert holder.lease("a") is None
    assert expires_in_s(database) <= 0
    assert not [thread for thread in threading.enumerate() if thread.name == "leases"]


def test_a_lease_that_is_given_up_is_distrusted_at_once_and_not_requested_again(
    database: Database, clock: Clock
) -> None:
    holder, rival = keeper(database, clock), keeper(database, clock, "two")
    holder.want("a")
    rival.want("a")
    holder.tick()
    lease = holder.lease("a")
    assert lease is not None
    holder.give_up("a")
    assert not holder.trusts(lease)
    assert expires_in_s(database) > 0
    holder.tick()
    assert expires_in_s(database) <= 0
    holder.tick()
    assert holder.lease("a") is None
    holder.ask_again("a")
    holder.tick()
    new_lease = holder.lease("a")
    assert new_lease is not None
    assert new_lease.epoch > lease.epoch


def test_all_leases_are_renewed_by_one_statement(database: Database, clock: Clock) -> None:
    holder = keeper(database, clock)
    all_leases = [holder.acquire(f"lease {number}") for number in range(40)]
    clock.s += 5.0
    statements: list[str] = []
    sa.event.listen(database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    set_expiry(database, 3.0)
    statements.clear()
    holder.tick()
    assert len(statements) == 1
    with database.begin() as connection:
        assert min(row.expires_in_s for row in leases.find_all(connection)) > 10
    clock.s += 12.9
    assert all(lease is not None and holder.trusts(lease) for lease in all_leases)


def test_a_lease_under_which_a_write_is_ending_does_not_delay_the_others(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    holder = keeper(database, clock)
    busy, idle = holder.acquire("a"), holder.acquire("b")
    assert busy is not None and idle is not None
    set_expiry(database, 3.0)
    clock.s += 5.0
    with database.begin() as writing:
        leases.fence(writing, busy, closing=True)
        holder.tick()
        with database.begin() as connection:
            expiries = {row.name: row.expires_in_s for row in leases.find_all(connection)}
    assert expiries["a"] < 3.1
    assert expiries["b"] > 10
    assert caplog.records == []
    holder.tick()
    clock.s += 12.9
    assert holder.trusts(busy)
    assert holder.trusts(idle)


def test_a_silent_database_does_not_block_the_keeper(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "ANSWER_WITHIN_S", 0.5)
    monkeypatch.setattr(database_module, "PING_WITHIN_S", 0.5)
    with silent_proxy(database.url) as proxy, Database(proxy.url) as proxied:
        holder = keeper(proxied, clock)
        lease = holder.acquire("a")
        assert lease is not None
        fault_points.arm_action("during_renew", proxy.silence)
        clock.s += 5.0
        set_expiry(database, 3.0)
        holder.tick()
        holder.tick()
        assert proxy.swallowed > 0
        assert expires_in_s(database) > 10
        clock.s += 12.9
        assert holder.trusts(lease)
        holder.stop()


def test_holder_names_differ() -> None:
    assert len({holder_name() for _ in range(20)}) == 20
