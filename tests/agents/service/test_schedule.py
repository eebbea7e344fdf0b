"""When jobs run next, with a host's clock that is set forward and back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import apscheduler.executors.base
import apscheduler.schedulers.base
import pytest
import sqlalchemy as sa

from agents.service import runtime, schedule as schedule_module
from agents.service.base import CycleContext, CycleReport
from agents.service.clock import host_now
from agents.service.configuration import AgentSection
from agents.service.schedule import LATE_AFTER_S, Periodic, Schedule
from broker.store.connection.database import Database
from tests.agents.service.test_runtime import Running, scheduled_agent, state_of
from tests.fault.processes import wait_until

START = datetime(2026, 8, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


class HostClock(datetime):
    """The host's clock as the scheduler and the service read it, which a test sets."""

    off_s = 0.0
    goes = True

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return (host_now() if cls.goes else START) + timedelta(seconds=cls.off_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HostClock]]:
    for module in (apscheduler.schedulers.base, apscheduler.executors.base):
        monkeypatch.setattr(module, "datetime", HostClock)
    monkeypatch.setattr(schedule_module, "host_now", HostClock.now)
    yield HostClock
    HostClock.off_s, HostClock.goes = 0.0, True


@pytest.mark.parametrize(
    ("passed_s", "next_s"),
    [(-DAY, 30.0), (0.0, 30.0), (29.9, 30.0), (30.0, 30.0), (59.9, 30.0), (60.0, 60.0), (3650 * DAY, 3650 * DAY)],
)
def test_of_missed_periods_only_the_last_counts(passed_s: float, next_s: float) -> None:
    trigger = Periodic(timedelta(seconds=30))
    next_start = trigger.get_next_fire_time(START, START + timedelta(seconds=passed_s))
    assert next_start - START == timedelta(seconds=next_s)


def test_the_first_start_is_a_period_from_now() -> None:
    assert Periodic(timedelta(seconds=30)).get_next_fire_time(None, START) == START + timedelta(seconds=30)


class Steady:
    """A monotonic clock that a test moves on."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.mark.parametrize(
    ("off_s", "passed_s", "is_late"),
    [
        (0.0, 60.0, False),
        (0.0, 60.0 + LATE_AFTER_S, False),
        (-HOUR, 60.0 + LATE_AFTER_S, False),
        (-HOUR, 60.1 + LATE_AFTER_S, True),
        (-30 * DAY, 60.1 + LATE_AFTER_S, True),
        (-HOUR, 1.0, False),
    ],
)
def test_a_job_that_is_due_by_the_monotonic_clock_is_brought_forward(
    clock: type[HostClock], off_s: float, passed_s: float, is_late: bool
) -> None:
    clock.goes = False
    steady = Steady()
    schedule = Schedule(1, steady)
    schedule.add("a", lambda: None, MINUTE)
    schedule.bring_forward("a", MINUTE)
    assert schedule.look() == []
    clock.off_s = off_s
    steady.s += passed_s
    assert schedule.look() == (["a"] if is_late else [])
    # a job that was brought forward is planned anew, and is late again only after another period
    assert schedule.look() == []


def test_a_job_that_was_planned_just_before_the_clock_went_back_waits_one_period(clock: type[HostClock]) -> None:
    clock.goes = False
    steady = Steady()
    schedule = Schedule(1, steady)
    schedule.add("a", lambda: None, MINUTE)
    schedule.bring_forward("a", MINUTE)
    clock.off_s = -DAY
    assert schedule.look() == []
    steady.s += MINUTE + LATE_AFTER_S + 0.1
    assert schedule.look() == ["a"]


@pytest.mark.parametrize("jumps_s", [[-HOUR], [DAY, 0.0], [-30 * DAY], [10 * 365 * DAY]])
def test_cycles_and_heartbeats_go_on_when_the_clock_is_set(
    database: Database, clock: type[HostClock], monkeypatch: pytest.MonkeyPatch, jumps_s: list[float]
) -> None:
    monkeypatch.setattr(schedule_module, "LATE_AFTER_S", 0.1)
    monkeypatch.setattr(runtime, "LOOK_EVERY_S", 0.05)
    cycles = threading.Semaphore(0)

    def script(context: CycleContext) -> CycleReport:
        cycles.release()
        return CycleReport()

    section = AgentSection(period_s=0.3, cycle_budget_s=60)
    with Running(database, "one", [scheduled_agent("a", script, section)], heartbeat_every_s=0.5):
        assert cycles.acquire(timeout=30) and cycles.acquire(timeout=30)
        for off_s in jumps_s:
            clock.off_s = off_s
            beat = seen_at(database)
            for _ in range(3):
                assert cycles.acquire(timeout=30), f"no cycle after the clock was set by {off_s:g} s"
            wait_until(heartbeat_changed(database, beat), "heartbeats go on", 30)


def seen_at(database: Database) -> datetime | None:
    with database.begin() as connection:
        last_beat: datetime | None = connection.execute(sa.text("SELECT max(seen_at) FROM broker.services")).scalar()
    return last_beat


def heartbeat_changed(database: Database, before: datetime | None) -> Callable[[], bool]:
    return lambda: seen_at(database) != before


def test_a_service_that_writes_no_heartbeat_ends_when_it_may(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(database, "one", [], healthy_within_s=0.5, heartbeat_every_s=0.1)
    running.end_when_unhealthy_s = 1.0
    monkeypatch.setattr(running.service, "_beat", lambda: None)
    with running:
        running.thread.join(30)
        assert not running.thread.is_alive()
    assert running.service.ended_unhealthy


def test_a_service_with_heartbeats_is_healthy(database: Database) -> None:
    running = Running(database, "one", [], healthy_within_s=20.0, heartbeat_every_s=0.1)
    running.end_when_unhealthy_s = 0.0
    with running:
        wait_until(lambda: state_of(database) != {}, "the first heartbeat")
        beat = seen_at(database)
        wait_until(heartbeat_changed(database, beat), "another one")
    assert not running.service.ended_unhealthy
