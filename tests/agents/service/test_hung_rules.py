"""Rules that hang, and rules that end the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service.base import CycleContext, CycleReport, CycleRequest
from agents.service.configuration import AgentsConfiguration, AgentSection
from agents.service.cycle import CycleThread, open_run, run_cycle
from broker.rules.contract import LoadCut
from broker.service.commands import run
from broker.store.connection.database import Database
from broker.store.service import agent_runs
from tests.agents.service.test_cycle import LEASE, NOW, ScriptedAgent, context_of, raising_agent, row_of
from tests.agents.service.test_runtime import Running, outcomes, scheduled_agent
from tests.fault.processes import wait_until

pytestmark = pytest.mark.slow


class Hanging:
    """Stands in for the computation of a rule; :attr:`ends` releases it."""

    def __init__(self) -> None:
        self.began, self.ends = threading.Event(), threading.Event()

    def loops(self) -> None:
        """Loop in the interpreter; no ``Exception`` ends the loop."""
        self.began.set()
        while not self.ends.is_set():
            try:
                sum(range(1000))
            except Exception:
                raise AssertionError("nobody may swallow it") from None

    def waits(self) -> None:
        """Wait outside the interpreter, where nothing can be raised."""
        self.began.set()
        assert self.ends.wait(60)


class Slow(LoadCut):
    name = code = "slow"
    title = "never comes back"

    def __init__(self, ask: Callable[[], None]) -> None:
        self.ask = ask

    def keep(self, load: Any, weight: Any) -> Any:
        self.ask()

    def observe(self, load: Any, weight: Any) -> Any:
        raise AssertionError("nobody asks")


@pytest.fixture
def hanging() -> Any:
    rule = Hanging()
    yield rule
    rule.ends.set()


def script_with_rule(ask: Callable[[], None]) -> Callable[[CycleContext], CycleReport]:
    def script(context: CycleContext) -> CycleReport:
        Slow(ask).keep(None, None)
        return CycleReport()

    return script


def test_a_rule_that_loops_is_ended_at_the_budget_and_named(database: Database, hanging: Hanging) -> None:
    run_id = open_run(database, "scripted", LEASE, 0.3)
    record = run_cycle(ScriptedAgent(script_with_rule(hanging.loops)), context_of(database, run_id, budget_s=0.3))
    row = row_of(database, run_id)
    assert record.outcome == row.outcome == "over_budget"
    assert "rule slow still ran when the 0.3 s of the cycle were used up" in row.error
    assert 0.3 <= record.timings["total_s"] < 10 and hanging.began.is_set()


def test_work_that_is_no_rule_is_not_interrupted(database: Database) -> None:
    def script(context: CycleContext) -> CycleReport:
        while context.left_s > -0.2:
            sum(range(1000))
        return CycleReport({"n": 1})

    assert run_cycle(ScriptedAgent(script), context_of(database, budget_s=0.2)).outcome == "done"


def test_nothing_is_raised_in_a_thread_whose_cycle_is_over() -> None:
    def rule() -> None:
        thread.leave()
        thread.interrupt()
        sum(range(1000))

    thread = CycleThread()
    Slow(rule).keep(None, None)
    assert thread.interrupted is None


def test_a_waiting_rule_is_reported_by_name_and_its_agent_runs_elsewhere(database: Database, hanging: Hanging) -> None:
    elsewhere = threading.Event()

    def work(context: CycleContext) -> CycleReport:
        elsewhere.set()
        return CycleReport()

    section = AgentSection(period_s=3600, cycle_budget_s=0.2)
    with Running(database, "one", [scheduled_agent("a", script_with_rule(hanging.waits), section)], stop_within_s=0.1):
        assert hanging.began.wait(20)
        wait_until(lambda: outcomes(database) == [("a", "one", "overdue")], "the cycle is given up")
        with database.begin() as connection:
            error = connection.execute(sa.text("SELECT error FROM broker.agent_runs")).scalar_one()
        assert "rule slow has not come back" in str(error)
        with Database(database.url) as second_database, Running(second_database, "two", [scheduled_agent("a", work)]):
            assert elsewhere.wait(20)
        hanging.ends.set()
    with database.begin() as connection:
        assert agent_runs.last_runs(connection)["a"].holder == "two"


def test_a_cycle_by_hand_that_does_not_come_back_ends_with_the_process(
    database: Database, hanging: Hanging, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses: list[int] = []

    def end(status: int) -> None:
        statuses.append(status)
        hanging.ends.set()

    monkeypatch.setattr(run.os, "_exit", end)
    # long enough for the lease and the run row on a busy machine: the cycle's own time begins after them
    monkeypatch.setattr(run, "COMES_BACK_WITHIN_S", 3.0)
    section = AgentSection(period_s=3600, cycle_budget_s=0.2)
    hand_run = run.HandRun(database, NOW, 1, CycleRequest())
    run.run_by_hand(
        ScriptedAgent(script_with_rule(hanging.waits)), hand_run, AgentsConfiguration(agents={"scripted": section})
    )
    assert statuses == [1]
    assert "rule slow has not come back" in capsys.readouterr().err


def test_an_agent_that_ends_the_program_ends_its_cycle(database: Database) -> None:
    run_id = open_run(database, "scripted", LEASE)
    record = run_cycle(raising_agent(SystemExit(7)), context_of(database, run_id))
    assert record.outcome == row_of(database, run_id).outcome == "failed"
    assert record.error_line.startswith("SystemExit: 7")
