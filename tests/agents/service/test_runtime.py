from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import runtime
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import AgentSection, ProcessSettings, ServiceSection
from agents.service.leadership import LeaseKeeper
from agents.service.runtime import ScheduledAgent, Service, enabled_agents, retry_delay_s
from broker.service.statements.agent_cycles import database_clock
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.service import agent_pauses, services
from broker.store.service.leases import LeaseTerms
from tests.fault.processes import wait_until

LONG = AgentSection(period_s=3600, cycle_budget_s=60)


class ScriptedAgent(Agent[AgentOptions]):
    title = "does what the test says"
    options_type = AgentOptions

    def __init__(self, name: str, script: Callable[[CycleContext], CycleReport]) -> None:
        super().__init__(AgentOptions(), ProcessSettings())
        self.name = name  # type: ignore[misc]
        self.script = script

    def cycle(self, context: CycleContext) -> CycleReport:
        return self.script(context)


class Running:
    """A service in its own thread, stopped at the end of the block."""

    def __init__(self, database: Database, holder: str, agents: list[ScheduledAgent], **settings: float) -> None:
        keeper = LeaseKeeper(database, holder, LeaseTerms())
        self.service = Service(database, agents, keeper, ServiceSection(**settings))
        self.in_time: bool | None = None
        self.end_when_unhealthy_s = float("inf")
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.in_time = self.service.run(self.end_when_unhealthy_s)

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def stop(self) -> None:
        self.service.ending.set()
        self.thread.join(timeout=20)

    def __exit__(self, *_: object) -> None:
        self.stop()
        assert not self.thread.is_alive()


def scheduled_agent(
    name: str, script: Callable[[CycleContext], CycleReport], section: AgentSection = LONG
) -> ScheduledAgent:
    return ScheduledAgent(ScriptedAgent(name, script), section)


def outcomes(database: Database) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        rows = connection.execute(sa.text("SELECT agent, holder, outcome FROM broker.agent_runs ORDER BY id"))
        return [tuple(row) for row in rows]


def test_an_elected_service_runs_its_agents_at_once_and_leaves_no_trace_of_running(database: Database) -> None:
    started = {name: threading.Event() for name in "ab"}

    def script(context: CycleContext) -> CycleReport:
        assert context.lease is not None
        started[context.lease.name].set()
        return CycleReport({"n": 1})

    with Running(database, "one", [scheduled_agent("a", script), scheduled_agent("b", script)]) as running:
        assert started["a"].wait(20)
        assert started["b"].wait(20)
    assert running.in_time
    assert sorted(outcomes(database)) == [("a", "one", "done"), ("b", "one", "done")]
    with database.begin() as connection:
        assert services.find_all(connection) == []
        result = connection.execute(sa.text("SELECT bool_and(expires_at <= clock_timestamp()) FROM broker.leases"))
        assert result.scalar_one()


def test_an_agent_runs_again_on_its_period(database: Database) -> None:
    third = threading.Event()
    count = [0]

    def script(context: CycleContext) -> CycleReport:
        count[0] += 1
        if count[0] == 3:
            third.set()
        return CycleReport()

    with Running(database, "one", [scheduled_agent("a", script, AgentSection(period_s=0.2, cycle_budget_s=60))]):
        assert third.wait(20)


def test_a_paused_agent_starts_no_cycle_until_it_is_resumed(database: Database) -> None:
    started = {name: threading.Event() for name in "ab"}

    def script(context: CycleContext) -> CycleReport:
        assert context.lease is not None
        started[context.lease.name].set()
        return CycleReport()

    with database.begin() as connection:
        until = database_clock(connection) + timedelta(hours=1)
        agent_pauses.pause(connection, "a", until=until, reason="downtime", editor="ann")
    often = AgentSection(period_s=0.2, cycle_budget_s=60)
    with Running(database, "one", [scheduled_agent("a", script, often), scheduled_agent("b", script, often)]):
        assert started["b"].wait(20)
        started["b"].clear()
        assert started["b"].wait(20)  # both agents have been due once more
        assert not started["a"].is_set() and {agent for agent, _, _ in outcomes(database)} == {"b"}
        with database.begin() as connection:
            assert agent_pauses.resume(connection, "a", editor="ann")
        assert started["a"].wait(20)


def test_of_two_services_one_leads_and_the_other_takes_over_after_a_clean_stop(database: Database) -> None:
    started = {"one": threading.Event(), "two": threading.Event()}

    def script(context: CycleContext) -> CycleReport:
        assert context.lease is not None
        started[context.lease.holder].set()
        return CycleReport()

    with Running(database, "one", [scheduled_agent("a", script)]) as first:
        assert started["one"].wait(20)
        with Database(database.url) as second_database, Running(second_database, "two", [scheduled_agent("a", script)]):
            assert not started["two"].is_set()
            first.stop()
            assert started["two"].wait(5)


def test_a_transient_failure_is_tried_again_soon(database: Database) -> None:
    succeeded = threading.Event()
    attempts = [0]

    def script(context: CycleContext) -> CycleReport:
        attempts[0] += 1
        if attempts[0] < 3:
            raise DatabaseUnavailable("restarting")
        succeeded.set()
        return CycleReport()

    with Running(database, "one", [scheduled_agent("a", script)], retry_first_s=0.05):
        assert succeeded.wait(20)
    assert [outcome for _, _, outcome in outcomes(database)] == ["failed_transient", "failed_transient", "done"]


def test_another_failure_waits_for_the_period_and_does_not_end_the_agent(database: Database) -> None:
    second = threading.Event()
    attempts = [0]

    def script(context: CycleContext) -> CycleReport:
        attempts[0] += 1
        if attempts[0] == 2:
            second.set()
        raise ZeroDivisionError

    with Running(database, "one", [scheduled_agent("a", script, AgentSection(period_s=0.3, cycle_budget_s=60))]):
        assert second.wait(20)
    assert {outcome for _, _, outcome in outcomes(database)} == {"failed"}


def test_a_stop_abandons_a_cycle_that_checks(database: Database) -> None:
    started = threading.Event()

    def script(context: CycleContext) -> CycleReport:
        started.set()
        assert context.ending.wait(20)
        context.check()
        return CycleReport()

    with Running(database, "one", [scheduled_agent("a", script)]) as running:
        assert started.wait(20)
    assert running.in_time
    assert outcomes(database) == [("a", "one", "abandoned")]


def test_a_stop_leaves_a_cycle_that_does_not_check_behind_but_takes_its_lease(database: Database) -> None:
    started, go_on = threading.Event(), threading.Event()
    trusted: list[bool] = []

    def script(context: CycleContext) -> CycleReport:
        started.set()
        assert go_on.wait(20)
        assert context.lease is not None
        trusted.append(context.believes(context.lease))
        return CycleReport()

    with Running(database, "one", [scheduled_agent("a", script)], stop_within_s=0.1) as running:
        assert started.wait(20)
        running.stop()
        assert running.in_time is False
        go_on.set()
    wait_until(lambda: trusted != [], "the cycle that was left behind goes on", 20)
    assert trusted == [False]


def state_of(database: Database) -> dict[str, Any]:
    with database.begin() as connection:
        state = connection.execute(sa.text("SELECT state FROM broker.services")).scalar()
    return dict(state or {})


@pytest.mark.slow
def test_a_cycle_that_hangs_is_overdue_and_its_agent_runs_elsewhere_until_it_comes_back(database: Database) -> None:
    hanging, go_on, elsewhere = threading.Event(), threading.Event(), threading.Event()

    def hang(context: CycleContext) -> CycleReport:
        hanging.set()
        assert go_on.wait(60)
        return CycleReport()

    def work(context: CycleContext) -> CycleReport:
        elsewhere.set()
        return CycleReport()

    section = AgentSection(period_s=3600, cycle_budget_s=0.2)
    with Running(database, "one", [scheduled_agent("a", hang, section)], heartbeat_every_s=0.2) as first:
        assert hanging.wait(20)
        wait_until(lambda: state_of(database).get("overdue") == ["a"], "the service says it")
        with (
            Database(database.url) as second_database,
            Running(second_database, "two", [scheduled_agent("a", work)]) as second,
        ):
            assert elsewhere.wait(20)
            second.stop()
        go_on.set()
        wait_until(lambda: state_of(database).get("overdue") == [], "it has come back")
    assert first.in_time


@pytest.mark.slow
def test_a_service_that_hangs_ends_by_itself_when_it_may(database: Database) -> None:
    go_on = threading.Event()

    def hang(context: CycleContext) -> CycleReport:
        assert go_on.wait(60)
        return CycleReport()

    section = AgentSection(period_s=3600, cycle_budget_s=0.2)
    running = Running(database, "one", [scheduled_agent("a", hang, section)], stop_within_s=0.1)
    running.end_when_unhealthy_s = 1.0
    try:
        with running:
            running.thread.join(30)
            assert not running.thread.is_alive()
    finally:
        go_on.set()
    wait_until(lambda: outcomes(database) != [("a", "one", "running")], "what was left behind has ended")
    assert running.service.ended_unhealthy
    assert running.in_time is False


@pytest.mark.slow
def test_a_feed_that_hangs_and_one_that_fails_do_not_end_the_service(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOOK_EVERY_S", 0.02)
    go_on = threading.Event()

    def hang(context: CycleContext) -> CycleReport:
        assert go_on.wait(60)
        return CycleReport()

    def fail(context: CycleContext) -> CycleReport:
        raise ZeroDivisionError

    section = AgentSection(period_s=0.2, cycle_budget_s=0.2)
    agents = [scheduled_agent("hangs", hang, section), scheduled_agent("fails", fail, section)]
    for entry in agents:
        entry.agent.is_feed = True  # type: ignore[misc]
    running = Running(database, "one", agents, stop_within_s=0.1, heartbeat_every_s=0.1)
    running.end_when_unhealthy_s = 0.0
    try:
        with running:
            wait_until(lambda: state_of(database).get("overdue") == ["hangs"], "one is overdue")
            wait_until(lambda: state_of(database).get("failing", {}).get("fails", 0) >= 3, "the other fails")
            wait_until(lambda: state_of(database).get("failing", {}).get("fails", 0) >= 8, "it goes on for many looks")
            assert running.thread.is_alive()
    finally:
        go_on.set()
    assert not running.service.ended_unhealthy


def test_an_agent_that_fails_again_and_again_is_reported_until_it_succeeds(database: Database) -> None:
    fails = threading.Event()
    fails.set()

    def script(context: CycleContext) -> CycleReport:
        if fails.is_set():
            raise ZeroDivisionError
        return CycleReport()

    section = AgentSection(period_s=0.3, cycle_budget_s=60)
    with Running(database, "one", [scheduled_agent("a", script, section)], heartbeat_every_s=0.1) as running:
        wait_until(lambda: state_of(database).get("failing", {}).get("a", 0) >= 3, "three failures are told")
        assert len(outcomes(database)) >= 3
        fails.clear()
        wait_until(lambda: state_of(database).get("failing") == {}, "a success ends it")
    assert not running.service.ended_unhealthy


def test_run_each_once_runs_only_agents_that_no_other_service_leads(database: Database) -> None:
    other_keeper = LeaseKeeper(database, "other", LeaseTerms())
    assert other_keeper.acquire("b") is not None
    agents = [
        scheduled_agent("a", lambda context: CycleReport({"n": 1})),
        scheduled_agent("b", lambda context: CycleReport()),
    ]
    records = Service(database, agents, LeaseKeeper(database, "one", LeaseTerms()), ServiceSection()).run_each_once()
    assert records["a"] is not None
    assert records["a"].outcome == "done"
    assert records["b"] is None
    assert other_keeper.acquire("a") is not None


@pytest.mark.parametrize(
    ("failures", "jitter", "delay_s"),
    [(1, 0.0, 0.5), (1, 0.999999, 1.0), (2, 0.0, 1.0), (5, 0.999999, 16.0), (6, 0.999999, 20.0), (10_000, 0.0, 10.0)],
)
def test_the_retry_pause_doubles_within_bounds(failures: int, jitter: float, delay_s: float) -> None:
    assert retry_delay_s(failures, ServiceSection(), 20.0, jitter) == pytest.approx(delay_s, rel=1e-5)


def test_disabled_agents_are_not_made() -> None:
    off = AgentSection(enabled=False, period_s=1, cycle_budget_s=1)
    enabled = enabled_agents({"a": LONG, "b": off}, lambda name, options: ScriptedAgent(name, lambda c: CycleReport()))
    assert [entry.agent.name for entry in enabled] == ["a"]


def test_the_heartbeat_says_which_service_runs_where(database: Database) -> None:
    with database.begin() as connection:
        services.beat(connection, "one", "host", "1", ["a"])
        services.beat(connection, "one", "host", "1", ["a", "b"])
        (service,) = services.find_all(connection)
        assert (service.holder, service.host, service.agents) == ("one", "host", ["a", "b"])
        assert 0 <= service.seen_s_ago < 60
        services.leave(connection, "one")
        assert services.find_all(connection) == []
