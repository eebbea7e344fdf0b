from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from agents.base import (
    Agent,
    AgentOptions,
    BudgetExceededError,
    CycleAbandonedError,
    CycleContext,
    CycleReport,
)
from agents.cycle import open_run, outcome_of, run_cycle
from agents.process import ProcessSettings
from broker.errors import Refused
from broker.store import agent_runs
from broker.store.database import Database
from broker.store.errors import CommitOutcomeUnknown, DatabaseUnavailable
from broker.store.leases import Lease, StaleLeaseError

LEASE = Lease("scripted", "one", 7)
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


class ScriptedAgent(Agent[AgentOptions]):
    name = "scripted"
    title = "does what the test says"
    options_type = AgentOptions

    def __init__(self, script: Callable[[CycleContext], CycleReport]) -> None:
        super().__init__(AgentOptions(), ProcessSettings())
        self.script = script

    def cycle(self, context: CycleContext) -> CycleReport:
        return self.script(context)


def raising(error: Exception) -> ScriptedAgent:
    def script(context: CycleContext) -> CycleReport:
        raise error

    return ScriptedAgent(script)


def context_of(database: Database, run_id: int | None = None, **changes: Any) -> CycleContext:
    return CycleContext(database, NOW, 1, changes.pop("budget_s", 60.0), lease=LEASE, run_id=run_id, **changes)


def row_of(database: Database, run_id: int) -> sa.Row[Any]:
    with database.begin() as connection:
        return connection.execute(sa.text("SELECT * FROM broker.agent_runs WHERE id = :id"), {"id": run_id}).one()


def test_a_cycle_leaves_its_report_in_its_row(database: Database) -> None:
    report = CycleReport({"jobs": 12}, {"load_s": 0.5}, ("links are stale",), "snap", 17)
    run_id = open_run(database, "scripted", LEASE)
    assert row_of(database, run_id).outcome == "running"
    record = run_cycle(ScriptedAgent(lambda context: report), context_of(database, run_id))
    row = row_of(database, run_id)
    assert record.outcome == row.outcome == "done"
    assert row.counts == {"jobs": 12, "notes": ["links are stale"]}
    assert row.timings["load_s"] == 0.5
    assert (row.snapshot, row.tuning, row.error) == ("snap", 17, None)
    assert (row.holder, row.epoch) == ("one", 7)
    assert row.finished_at >= row.started_at


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (StaleLeaseError(LEASE), "lost_lease"),
        (BudgetExceededError("late"), "over_budget"),
        (CycleAbandonedError("stop"), "abandoned"),
        (Refused("stale", "links", "reload"), "refused"),
        (DatabaseUnavailable("gone"), "failed_transient"),
        (CommitOutcomeUnknown("who knows"), "failed_transient"),
        (sa.exc.OperationalError("", {}, Exception()), "failed_transient"),
        (psycopg.errors.DeadlockDetected("deadlock"), "failed_transient"),
        (psycopg.errors.SerializationFailure("again"), "failed_transient"),
        (psycopg.errors.UniqueViolation("twice"), "failed"),
        (sa.exc.ProgrammingError("", {}, Exception()), "failed"),
        (ZeroDivisionError("oops"), "failed"),
    ],
)
def test_every_error_has_a_typed_outcome(database: Database, error: Exception, outcome: str) -> None:
    assert outcome_of(error) == outcome
    run_id = open_run(database, "scripted", LEASE)
    record = run_cycle(raising(error), context_of(database, run_id))
    row = row_of(database, run_id)
    assert record.outcome == row.outcome == outcome
    assert type(error).__name__ in row.error


def test_an_unforeseen_error_keeps_its_traceback_within_bounds(database: Database) -> None:
    run_id = open_run(database, "scripted", LEASE)
    run_cycle(raising(ValueError("x\0y" * 10_000)), context_of(database, run_id))
    assert len(row_of(database, run_id).error) <= agent_runs.ERROR_LIMIT


def test_the_database_may_be_gone_when_the_cycle_ends(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    run_id = open_run(database, "scripted", LEASE)

    class Gone(Database):
        def begin(self) -> Any:
            raise DatabaseUnavailable("gone")

    record = run_cycle(raising(DatabaseUnavailable("gone")), context_of(Gone(database.url), run_id))
    assert record.outcome == "failed_transient"
    assert "run row left open" in caplog.text
    assert row_of(database, run_id).finished_at is None


def test_a_row_left_open_is_closed_by_a_later_epoch_only(database: Database) -> None:
    left_open = open_run(database, "scripted", LEASE)
    of_another = open_run(database, "another", LEASE)
    open_run(database, "scripted", LEASE)
    assert row_of(database, left_open).outcome == "running"
    open_run(database, "scripted", Lease("scripted", "two", 8))
    assert row_of(database, left_open).outcome == "interrupted"
    assert row_of(database, of_another).outcome == "running"


def test_last_runs_are_the_newest_of_each_agent(database: Database) -> None:
    run_cycle(raising(ValueError("old")), context_of(database, open_run(database, "scripted", LEASE)))
    run_cycle(
        ScriptedAgent(lambda context: CycleReport({"n": 1})),
        context_of(database, open_run(database, "scripted", LEASE)),
    )
    with database.begin() as connection:
        last = agent_runs.last_runs(connection)
    assert list(last) == ["scripted"]
    assert (last["scripted"].outcome, last["scripted"].counts) == ("done", {"n": 1})
    assert 0 <= last["scripted"].started_s_ago < 60


@pytest.mark.parametrize(("used_s", "ends"), [(0.0, False), (60.0, False), (60.01, True)])
def test_the_budget_is_checked(database: Database, used_s: float, ends: bool) -> None:
    context = context_of(database, monotonic=lambda: 100.0 + used_s, started=100.0)
    if ends:
        with pytest.raises(BudgetExceededError, match="cycle_budget_s"):
            context.check()
    else:
        context.check()


def test_a_check_notices_that_the_service_stops_and_that_the_lease_is_gone(database: Database) -> None:
    ending = threading.Event()
    ending.set()
    with pytest.raises(CycleAbandonedError):
        context_of(database, ending=ending).check()
    with pytest.raises(StaleLeaseError):
        context_of(database, believes=lambda lease: False).check()
