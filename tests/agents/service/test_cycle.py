from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from agents.service.base import (
    Agent,
    AgentOptions,
    BudgetExceededError,
    CycleAbandonedError,
    CycleContext,
    CycleReport,
    CycleRequest,
    CycleWritesNothingError,
)
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, outcome_of, run_cycle
from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.errors import CommitOutcomeUnknown, DatabaseUnavailable
from broker.store.service import agent_runs
from broker.store.service.leases import Lease, StaleLeaseError
from tests.fault.silent_proxy import silent_proxy

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


def raising_agent(error: BaseException) -> ScriptedAgent:
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
    record = run_cycle(raising_agent(error), context_of(database, run_id))
    row = row_of(database, run_id)
    assert record.outcome == row.outcome == outcome
    assert type(error).__name__ in row.error


def test_an_unforeseen_error_keeps_its_traceback_within_bounds(database: Database) -> None:
    run_id = open_run(database, "scripted", LEASE)
    run_cycle(raising_agent(ValueError("x\0y" * 10_000)), context_of(database, run_id))
    assert len(row_of(database, run_id).error) <= agent_runs.ERROR_LIMIT


def test_the_database_may_be_gone_when_the_cycle_ends(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    run_id = open_run(database, "scripted", LEASE)

    class Gone(Database):
        def begin(self) -> Any:
            raise DatabaseUnavailable("gone")

    record = run_cycle(raising_agent(DatabaseUnavailable("gone")), context_of(Gone(database.url), run_id))
    assert record.outcome == "failed_transient"
    assert "run row left open" in caplog.text
    assert row_of(database, run_id).finished_at is None


def test_a_row_left_open_is_closed_by_a_later_epoch_only(database: Database) -> None:
    open_run_id = open_run(database, "scripted", LEASE)
    other_run_id = open_run(database, "another", LEASE)
    open_run(database, "scripted", LEASE)
    assert row_of(database, open_run_id).outcome == "running"
    open_run(database, "scripted", Lease("scripted", "two", 8))
    assert row_of(database, open_run_id).outcome == "interrupted"
    assert row_of(database, other_run_id).outcome == "running"


def test_last_runs_are_the_newest_of_each_agent(database: Database) -> None:
    run_cycle(raising_agent(ValueError("old")), context_of(database, open_run(database, "scripted", LEASE)))
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


@pytest.mark.parametrize("changes", [{"lease": None}, {"request": CycleRequest(dry_run=True)}])
def test_a_cycle_that_may_not_write_gets_no_transaction_to_write_in(
    database: Database, changes: dict[str, Any]
) -> None:
    context = dataclasses.replace(context_of(database), **changes)
    assert not context.writes
    with pytest.raises(CycleWritesNothingError):
        context.writing()
    with pytest.raises(sa.exc.InternalError, match="read-only transaction"), context.transaction() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))


def test_a_cycle_that_writes_does_so_under_its_lease(database: Database) -> None:
    context = context_of(database)
    assert context.writes
    for transaction in (context.writing, context.transaction):
        with pytest.raises(StaleLeaseError), transaction():
            raise AssertionError("the lease is not in force")


def sleeping_agent(seconds: float) -> ScriptedAgent:
    def script(context: CycleContext) -> CycleReport:
        with context.database.read_snapshot() as connection:
            connection.execute(sa.text("SELECT pg_sleep(:s)"), {"s": seconds})
        return CycleReport()

    return ScriptedAgent(script)


def test_a_statement_that_uses_up_the_budget_is_ended_by_the_server(database: Database) -> None:
    run_id = open_run(database, "scripted", LEASE, 0.2)
    record = run_cycle(sleeping_agent(30), context_of(database, run_id, budget_s=0.2))
    assert record.outcome == row_of(database, run_id).outcome == "over_budget"
    assert record.timings["total_s"] < 10


def test_a_cycle_whose_database_falls_silent_is_ended_two_seconds_after_its_budget(database: Database) -> None:
    overdue: list[str] = []
    with silent_proxy(database.url) as proxy, Database(proxy.url) as proxied:

        def script(context: CycleContext) -> CycleReport:
            with context.database.read_snapshot() as connection:
                connection.execute(sa.text("SELECT 1"))
                proxy.silence()
                connection.execute(sa.text("SELECT 1"))
            return CycleReport()

        run_id = open_run(proxied, "scripted", LEASE, 0.5)
        context = context_of(proxied, run_id, budget_s=0.5, when_overdue=lambda message: overdue.append(message))
        record = run_cycle(ScriptedAgent(script), context)
        assert proxy.swallowed > 0
    assert record.outcome == row_of(database, run_id).outcome == "overdue"
    assert 2.4 < record.timings["total_s"] < 12
    assert overdue == ["the cycle of scripted is overdue: 2.5 s have passed"]


def test_a_cycle_that_is_cut_while_the_service_stops_is_abandoned(database: Database) -> None:
    def script(context: CycleContext) -> CycleReport:
        with context.database.read_snapshot() as connection:
            context.ending.set()
            context.connections.cut("the service is stopping")
            connection.execute(sa.text("SELECT 1"))
        return CycleReport()

    assert run_cycle(ScriptedAgent(script), context_of(database)).outcome == "abandoned"


@pytest.mark.parametrize(
    ("started_s_ago", "budget_s", "outcome"),
    [(61.9, 60.0, "running"), (62.1, 60.0, "overdue"), (1e6, None, "running"), (1e6, float("inf"), "running")],
)
def test_a_cycle_that_should_have_ended_is_shown_as_overdue(
    database: Database, started_s_ago: float, budget_s: float | None, outcome: str
) -> None:
    run_id = open_run(database, "scripted", LEASE, budget_s)
    statement = sa.text("UPDATE broker.agent_runs SET started_at = clock_timestamp() - make_interval(secs => :s)")
    with database.begin() as connection:
        connection.execute(statement, {"s": started_s_ago})
        assert agent_runs.last_runs(connection)["scripted"].outcome == outcome
    run_cycle(ScriptedAgent(lambda context: CycleReport()), context_of(database, run_id))
    with database.begin() as connection:
        connection.execute(statement, {"s": started_s_ago})
        assert agent_runs.last_runs(connection)["scripted"].outcome == "done"
