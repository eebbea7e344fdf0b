"""The work of a site rolled out ahead from its newest stored snapshot, and the reason where that is not possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.forecasts import rolling
from agents.forecasts.rolling import Outcome, RollOutInput, outcome_of, read_ahead, rolled_out
from agents.service.base import CycleContext, CycleRequest
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.real.brokered import shipped_profile
from broker.simulation.model.rolling_out import RolledOut, RollOutSettings
from broker.simulation.model.work_of_site import WorkRows, work_of_site
from broker.snapshot.raw import RawSource
from broker.store.connection.database import Database
from broker.store.gdpconfig_rows import TuningStore
from broker.store.snapshots.stored_snapshots import EncodedSnapshot
from tests.fault.processes import NOW, cycle_here, load_grid
from tests.pilots.panda.pilot_grid import run_agent

HOW = RollOutSettings(hours=1.0, seeds=1, cycle_s=600.0, budget_s=100.0, seed=1)
WINDOW = timedelta(hours=6)
RESULT = RolledOut({}, {7: 60.0}, {}, 2, 1.5)
EMPTY = RollOutInput(
    WorkRows((), (), (), (), (), (), 21_600.0),
    EncodedSnapshot("s", NOW, "1", {}, {}),
    RawSource("s", {}),
    shipped_profile("seed"),
    {},
    HOW,
)


class FixedResult(Executor):
    """Runs nothing, and gives a fixed result or error."""

    def __init__(self, result: RolledOut | None = None, error: BaseException | None = None) -> None:
        self._result, self._error = result, error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._error is not None:
            future.set_exception(self._error)
        elif self._result is not None:
            future.set_result(self._result)
        return future


@pytest.fixture
def grid(database: Database) -> Database:
    load_grid(database)
    return database


@pytest.fixture
def brokered_grid(grid: Database) -> Database:
    """A grid whose tasks were brokered once."""
    assert cycle_here(grid).outcome == "done"
    return grid


def read(database: Database, minutes: float = 1.0) -> RollOutInput | str:
    context = CycleContext(database, NOW + timedelta(minutes=minutes), 1, 600.0, CycleRequest())
    return read_ahead(context, WINDOW, shipped_profile("seed"), {}, HOW)


def ahead_at(database: Database) -> RollOutInput:
    ahead = read(database)
    assert isinstance(ahead, RollOutInput)
    return ahead


def test_work_of_the_newest_snapshot_is_rolled_out_and_says_when_tasks_start(brokered_grid: Database) -> None:
    ahead = ahead_at(brokered_grid)
    result = rolled_out(ahead, lambda: 0.0)
    waiting = {row.task for row in ahead.rows.waiting}
    assert len(result.tasks) > 100 and set(result.tasks) <= waiting
    assert all(0.0 <= start <= 3600.0 for start in result.tasks.values())
    assert result == rolled_out(ahead, lambda: 0.0)


def test_tasks_without_a_queue_and_tasks_that_came_lately_are_read(brokered_grid: Database) -> None:
    with brokered_grid.begin() as connection:
        files = "UPDATE doma_panda.jedi_datasets SET nfilestobeused = 5000, nfilesused = 10 WHERE masterid IS NULL"
        connection.execute(sa.text(files))
        parameters = {"at": (NOW - timedelta(hours=3)).replace(tzinfo=None)}
        connection.execute(sa.text("UPDATE doma_panda.jedi_tasks SET creationdate = :at"), parameters)
    rows = ahead_at(brokered_grid).rows
    assert {row.jobs for row in rows.unassigned} == {row.jobs for row in rows.came} == {1000}
    assert rows.window_s == 21_600.0


def test_without_a_snapshot_or_with_an_old_one_there_is_a_reason(grid: Database) -> None:
    assert read(grid) == "no snapshot is stored"
    cycle_here(grid)
    assert read(grid, 61.0) == "the newest snapshot is of 2026-08-01 12:00 UTC"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BrokenProcessPool("gone"), "its process ended before it was done: out of CPU time or memory"),
        (SimulationError("no nucleus", "grid", "name one"), "no nucleus; grid; name one"),
        (TimeoutError(), "it took longer than 5 s"),
    ],
)
def test_errors_of_a_roll_out_are_reported_and_not_raised(error: BaseException, why: str) -> None:
    assert outcome_of(EMPTY, 5.0, FixedResult(error=error)) == Outcome(None, why)


def test_the_number_of_roll_outs_is_reported() -> None:
    assert outcome_of(EMPTY, 5.0, FixedResult(RESULT)) == Outcome(RESULT, "", {"rollouts": 2, "rolled_out_min": 90})
    no_seeds = dataclasses.replace(RESULT, seeds=0)
    assert outcome_of(EMPTY, 5.0, FixedResult(no_seeds)).why_not == "the budget did not last for any"
    assert outcome_of("no snapshot is stored", 5.0) == Outcome(None, "no snapshot is stored")


def set_budget(database: Database, seconds: float) -> None:
    with database.begin() as connection:
        TuningStore(database.names).sync_outside_changes(connection)
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.config (app, component, key, value, type, vo) "
                "VALUES ('jedi', 'jobbroker', 'FORECAST_ROLLOUT_BUDGET', :value, 'float', 'any')"
            ),
            {"value": str(seconds)},
        )


def clues(database: Database) -> int:
    with database.begin() as connection:
        query = "SELECT count(*) FROM broker.forecasts WHERE is_newest AND kind = 'task' AND rollout_s IS NOT NULL"
        return int(connection.execute(sa.text(query)).scalar_one())


def learn(database: Database, cores: int) -> None:
    """Record that ``cores`` cores ran at each queue lately."""
    with database.begin() as connection:
        query = (
            "INSERT INTO broker.queue_cores (hour, queue, kind, most_cores_running) "
            "SELECT :hour, panda_queue, 'all', :cores FROM doma_panda.schedconfig_json"
        )
        connection.execute(sa.text(query), {"hour": NOW - timedelta(hours=2), "cores": cores})


def test_queues_have_as_many_cores_as_ran_there(brokered_grid: Database) -> None:
    before = ahead_at(brokered_grid)
    learn(brokered_grid, 640)
    work = work_of_site(ahead_at(brokered_grid).rows, before.snapshot.build(), before.snapshot.sources())
    queues = work.grid.queues
    assert len(queues) > len(work_of_site(before.rows, before.snapshot.build(), before.snapshot.sources()).grid.queues)
    assert all(queue.cores >= 640 for queue in queues)


class InThisProcess(Executor):
    """Runs each call at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_with_a_budget_forecasts_have_the_clue_unless_there_is_no_snapshot(
    grid: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "own_process", lambda budget_s: InThisProcess())
    set_budget(grid, 1e3)
    record, _ = run_agent(grid, "forecasts")
    assert record.outcome == "done" and record.notes == ("no roll-out: no snapshot is stored",)
    assert record.counts["told"] > 0 and clues(grid) == 0
    cycle_here(grid)
    learn(grid, 64)
    options = {"rollout_hours": 1.0, "rollout_seeds": 1}
    record, _ = run_agent(grid, "forecasts", now=NOW + timedelta(minutes=10), options=options)
    assert record.outcome == "done" and not record.notes
    assert record.counts["rollouts"] == 1 and clues(grid) > 0


@pytest.mark.slow
def test_another_process_gives_the_same_result(brokered_grid: Database) -> None:
    ahead = ahead_at(brokered_grid)
    outcome = outcome_of(ahead, 300.0)
    assert outcome.rollout == rolled_out(ahead, lambda: 0.0)
