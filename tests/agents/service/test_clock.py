"""Clocks that contradict one another: which faults are reported, and which agents refuse to work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport, CycleRequest
from agents.service.clock import ClockFault, ClockReading, ClockWatch, beyond_s, host_now, read_clocks, steady_s
from agents.service.configuration import AgentSection, ProcessSettings, ServiceSection
from agents.service.cycle import run_cycle
from agents.service.leadership import LeaseKeeper
from agents.service.runtime import ScheduledAgent, Service
from broker.store.connection.database import Database
from broker.store.service.leases import LeaseTerms
from tests.fault.processes import wait_until

START = datetime(2026, 8, 1, 12, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
REMOVING = (
    "timeouts", "fast_rebrokerage", "analysis_rebrokerage", "cleanup", "submit_pool_cleanup"
)  # fmt: skip


def reading(passed_s: float, database_s: float = 0.0, host_s: float = 0.0, answer_s: float = 0.0) -> ClockReading:
    """A reading after ``passed_s`` of the steady clock; the other clocks are off, the database takes ``answer_s``."""
    now = START + timedelta(seconds=passed_s)
    host = now + timedelta(seconds=host_s)
    return ClockReading(
        now + timedelta(seconds=database_s), (host, host + timedelta(seconds=answer_s)), (passed_s, passed_s + answer_s)
    )


def fault_codes(faults: tuple[ClockFault, ...]) -> list[tuple[str, float]]:
    return [(fault.code, fault.seconds) for fault in faults]


@pytest.mark.parametrize(
    ("host_s", "expected"),
    [
        (0.0, []),
        (30.0, []),
        (-30.0, []),
        (30.1, [("host_differs_from_database", 30.1)]),
        (-30.1, [("host_differs_from_database", -30.1)]),
        (6 * HOUR, [("host_differs_from_database", 6 * HOUR)]),
        (-30 * DAY, [("host_differs_from_database", -30 * DAY)]),
    ],
)
def test_the_hosts_clock_is_compared_with_the_databases(host_s: float, expected: list[tuple[str, float]]) -> None:
    faults = ClockWatch(30.0).check(reading(0.0, host_s=host_s))
    assert fault_codes(faults) == [(code, pytest.approx(seconds)) for code, seconds in expected]
    assert all(fault.limit_s == 30.0 for fault in faults)


@pytest.mark.parametrize(
    ("jump_s", "faulty"), [(0.0, False), (30.0, False), (-30.0, False), (30.1, True), (-30.1, True), (6 * HOUR, True)]
)
def test_a_clock_that_both_share_is_compared_with_the_steady_one(jump_s: float, faulty: bool) -> None:
    watch = ClockWatch(30.0)
    assert watch.check(reading(0.0)) == ()
    faults = fault_codes(watch.check(reading(600.0, jump_s, jump_s)))
    jumps = [("host_jumped", pytest.approx(jump_s)), ("database_jumped", pytest.approx(jump_s))]
    assert faults == (jumps if faulty else [])


def test_a_jump_is_reported_until_the_clock_is_set_back() -> None:
    watch = ClockWatch(30.0)
    watch.check(reading(0.0))
    for passed_s in (600.0, 700.0, 899.9):
        assert {fault.code for fault in watch.check(reading(passed_s, HOUR, HOUR))} == {
            "host_jumped",
            "database_jumped",
        }
    assert watch.check(reading(899.95)) == ()


@pytest.mark.parametrize(
    ("readings", "believed"),
    [
        ([(600.0, HOUR, HOUR), (899.9, HOUR, HOUR)], False),
        ([(600.0, HOUR, HOUR), (900.0, HOUR, HOUR)], True),
        ([(600.0, HOUR, HOUR), (900.0, HOUR + 30, HOUR + 30)], True),
        # another jump meanwhile: the time counts from that jump
        ([(600.0, HOUR, HOUR), (700.0, 2 * HOUR, 2 * HOUR), (999.9, 2 * HOUR, 2 * HOUR)], False),
        ([(600.0, HOUR, HOUR), (700.0, 2 * HOUR, 2 * HOUR), (1000.0, 2 * HOUR, 2 * HOUR)], True),
        # clocks that differ never agree, however long they differ
        ([(600.0, 0.0, HOUR), (1e6, 0.0, HOUR)], False),
        ([(600.0, 0.0, HOUR), (800.0, HOUR, HOUR), (1099.9, HOUR, HOUR)], False),
        ([(600.0, 0.0, HOUR), (800.0, HOUR, HOUR), (1100.0, HOUR, HOUR)], True),
        ([(600.0, HOUR, HOUR), (700.0, 0.0, HOUR), (800.0, HOUR, HOUR), (1099.9, HOUR, HOUR)], False),
    ],
)
def test_clocks_that_agree_for_some_minutes_are_believed_again(
    readings: list[tuple[float, float, float]], believed: bool
) -> None:
    watch = ClockWatch(30.0, agree_for_s=300.0)
    watch.check(reading(0.0))
    *earlier, last = [watch.check(reading(*values)) for values in readings]
    assert all(earlier) and (last == ()) is believed


def test_a_clock_that_was_wrong_from_the_start_may_be_corrected() -> None:
    watch = ClockWatch(30.0)
    assert len(watch.check(reading(0.0, host_s=6 * HOUR))) == 1
    assert watch.check(reading(600.0)) == ()


def test_small_corrections_do_not_add_up() -> None:
    watch = ClockWatch(30.0)
    assert all(watch.check(reading(600.0 * n, 20.0 * n, 20.0 * n)) == () for n in range(100))


def test_a_slow_answer_is_no_contradiction() -> None:
    watch = ClockWatch(30.0)
    assert watch.check(reading(0.0, database_s=500.0, answer_s=600.0)) == ()
    assert watch.check(reading(1000.0)) == ()
    assert watch.check(reading(2000.0, database_s=100.0, answer_s=600.0)) == ()
    assert len(watch.check(reading(5000.0, database_s=640.0, answer_s=600.0))) == 1


@pytest.mark.parametrize(("value_s", "beyond"), [(4.0, -1.0), (5.0, 0.0), (6.0, 0.0), (7.0, 0.0), (8.5, 1.5)])
def test_the_distance_beyond_an_interval(value_s: float, beyond: float) -> None:
    assert beyond_s(value_s, (5.0, 7.0)) == beyond_s(value_s, (7.0, 5.0)) == beyond


def test_the_clocks_of_a_good_machine_agree(database: Database) -> None:
    assert ClockWatch(30.0).check(read_clocks(database)) == ()
    clocks = read_clocks(database, lambda: START, lambda: 5.0)
    assert (clocks.host, clocks.steady) == ((START, START), (5.0, 5.0))
    assert abs((clocks.database - host_now()).total_seconds()) < 60


def test_the_agents_that_remove_are_known() -> None:
    profiles = {"generic_job": "panda-gen"}
    agents = {
        name: registry.make(name, {}, ProcessSettings(profile=profiles.get(name, "seed"))) for name in registry.NAMES
    }
    assert {name for name, agent in agents.items() if agent.removes} == set(REMOVING)


class Removing(Agent[AgentOptions]):
    name = "removing"
    title = "removes"
    options_type = AgentOptions
    removes = True

    def __init__(self, script: Callable[[CycleContext], CycleReport], removes: bool = True) -> None:
        super().__init__(AgentOptions(), ProcessSettings())
        self.script, self.removes = script, removes  # type: ignore[misc]

    def cycle(self, context: CycleContext) -> CycleReport:
        return self.script(context)


@pytest.mark.parametrize(
    ("removes", "request_", "outcome"),
    [
        (True, CycleRequest(), "refused"),
        (True, CycleRequest(force=True), "done"),
        (True, CycleRequest(dry_run=True), "done"),
        (False, CycleRequest(), "done"),
    ],
)
def test_only_agents_that_remove_refuse_and_all_agents_log_it(
    database: Database, caplog: pytest.LogCaptureFixture, removes: bool, request_: CycleRequest, outcome: str
) -> None:
    fault = ClockFault("host_jumped", 6 * HOUR, 30.0)
    context = CycleContext(database, START, 1, 60.0, request_, clock_faults=(fault,))
    record = run_cycle(Removing(lambda _: CycleReport(), removes), context)
    assert record.outcome == outcome
    assert "clocks contradict one another" in caplog.text
    if outcome == "refused":
        assert "host_jumped by +21600 s (limit 30 s)" in str(record.error)
        assert "--force" in str(record.error)


class Clocks:
    """Clocks of a host that a test sets between two cycles."""

    def __init__(self) -> None:
        self.host_off_s = self.steady_off_s = 0.0

    def host(self) -> datetime:
        return host_now() + timedelta(seconds=self.host_off_s)

    def steady(self) -> float:
        return steady_s() + self.steady_off_s


@pytest.mark.slow
@pytest.mark.parametrize("off_s", [6 * HOUR, -6 * HOUR, 30 * DAY, -30 * DAY])
@pytest.mark.parametrize("shared_with_the_database", [False, True])
def test_a_service_stops_removing_when_a_clock_is_set(
    database: Database, off_s: float, shared_with_the_database: bool
) -> None:
    clocks, instants, fourth = Clocks(), list[datetime](), threading.Event()

    def work(context: CycleContext) -> CycleReport:
        instants.append(context.now)
        if len(instants) == 2:
            # If the host shares its clock with the database, the test moves the steady clock instead.
            clocks.host_off_s = 0.0 if shared_with_the_database else off_s
            clocks.steady_off_s = -off_s if shared_with_the_database else 0.0
        if len(instants) == 4:
            fourth.set()
        return CycleReport()

    section = AgentSection(period_s=0.2, cycle_budget_s=60)
    agents = [
        ScheduledAgent(Removing(lambda _: CycleReport()), section),
        ScheduledAgent(named_agent("working", work), section),
    ]
    keeper = LeaseKeeper(database, "one", LeaseTerms())
    settings = ServiceSection(clocks_agree_for_s=3.0)
    service = Service(database, agents, keeper, settings, clocks.host, clocks.steady)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        assert fourth.wait(30)
        wait_until(lambda: was_refused(database, "removing"), "what removes is refused")
        if shared_with_the_database:
            wait_until(lambda: outcome_of_last(database, "removing") == "done", "it goes on once the clocks agree")
    finally:
        service.ending.set()
        thread.join(20)
    assert outcome_of_last(database, "working") in ("done", "abandoned")
    assert all(abs((instant - host_now()).total_seconds()) < HOUR for instant in instants)


def named_agent(name: str, script: Callable[[CycleContext], CycleReport]) -> Agent[Any]:
    agent = Removing(script, removes=False)
    agent.name = name  # type: ignore[misc]
    return agent


def was_refused(database: Database, agent: str) -> bool:
    statement = "SELECT count(*) > 0 FROM broker.agent_runs WHERE agent = :agent AND outcome = 'refused'"
    with database.begin() as connection:
        return bool(connection.execute(sa.text(statement), {"agent": agent}).scalar_one())


def outcome_of_last(database: Database, agent: str) -> str:
    statement = "SELECT outcome FROM broker.agent_runs WHERE agent = :agent ORDER BY id DESC LIMIT 1"
    with database.begin() as connection:
        return str(connection.execute(sa.text(statement), {"agent": agent}).scalar_one())
