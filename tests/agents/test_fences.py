"""Every transaction of an agent is refused when its lease is lost: before its first write, and before its commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.pools.pool_registration import Asked, attach, register
from broker.store.scenarios.load_dump import load
from tests.agents.losing_leases import Moment, contents, cycle, lose_when_written, take_over, want_limits
from tests.agents.pools.test_activation import replica
from tests.agents.pools.test_activation import scenario as waiting_jobs
from tests.brokerages import small_grid, task_grid
from tests.store.pool_grid import PLACES, add_task, at, pool_for, publish_places


def fill_tasks(database: Database) -> None:
    load(database, task_grid.task_scenario())


def fill_jobs(database: Database) -> None:
    load(database, waiting_jobs(replicas=[replica("BETA", 4)]))


def fill_work(database: Database) -> None:
    files = small_grid.input_files(4, 10**9)
    tables = {"jedi_tasks": [small_grid.task()], "jedi_datasets": [small_grid.dataset(4)]}
    load(database, small_grid.scenario(**tables, jedi_dataset_contents=files))


def fill_held(database: Database) -> None:
    """A task that has been on hold for long enough."""
    held = {"status": "pending", "oldstatus": "running", "modificationtime": "2026-08-01T01:00:00"}
    load(database, small_grid.scenario(jedi_tasks=[small_grid.task(**held)]))


def fill_asking(database: Database) -> None:
    """A task that asks for a pool that was cleared away."""
    publish_places(database)
    add_task(database, 1)
    with database.begin() as connection:
        attach(connection, 1, pool_for(Memory=1), Asked())


def fill_pools(database: Database) -> None:
    publish_places(database)
    with database.begin() as connection:
        register(connection, pool_for(Memory=1), at(0))


@pytest.fixture
def place_file(tmp_path: Path) -> str:
    """A file with places, for an agent that reads them from one."""
    file = tmp_path / "places.json"
    file.write_text(json.dumps({"resources": {"SITE_A": PLACES["SITE_A"]}}), encoding="utf-8")
    return str(file)


@dataclass(frozen=True)
class Transaction:
    """One transaction of a cycle.

    Attributes:
        agent: whose it is.
        name: what it does.
        fill: puts something to do into the database.
        tables: that it writes.
        before: a moment after the transaction before it.
        options: of the agent.
    """

    agent: str
    name: str
    fill: Callable[[Database], None]
    tables: tuple[str, ...]
    before: str | int
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.agent}: {self.name}"


POOLS = "submit_pool_refresh"
TRANSACTIONS = (
    Transaction("production_job", "wake", fill_held, ("doma_panda.jedi_tasks",), "start"),
    Transaction(
        "production_job",
        "batch",
        fill_work,
        ("broker.decisions", "broker.snapshots", "doma_panda.jobsdefined4", "doma_panda.filestable4"),
        "after_snapshot",
    ),
    Transaction(
        "production_task",
        "batch",
        fill_tasks,
        ("broker.decisions", "broker.snapshots", "doma_panda.jedi_tasks", "doma_panda.jedi_datasets"),
        "after_snapshot",
    ),
    Transaction("activation", "batch", fill_jobs, ("doma_panda.jobsdefined4", "doma_panda.jobsactive4"), 1),
    Transaction("activation", "task queues", fill_jobs, ("broker.task_queues", "broker.waiting_jobs"), 2),
    Transaction(POOLS, "resources", fill_pools, ("broker.resource_versions",), "start", {"resources": "file"}),
    Transaction(POOLS, "restoring", fill_asking, ("broker.submit_pools",), "start"),
    Transaction(POOLS, "mapping", fill_pools, ("broker.submit_pool_links", "broker.submit_pool_refreshes"), 1),
)


def prepared(database: Database, one: Transaction, place_file: str) -> dict[str, Any]:
    one.fill(database)
    return {**one.options, "file": place_file} if one.options else {}


def moment_of(one: Transaction) -> Any:
    return small_grid.NOW if one.agent.startswith("production") else at(1)


def take_back(database: Database) -> None:
    """The lease of the test is free again."""
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))


@pytest.mark.parametrize("one", TRANSACTIONS, ids=str)
def test_a_cycle_that_keeps_its_lease_writes(
    database: Database, one: Transaction, place_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the other tests here would show nothing."""
    options = prepared(database, one, place_file)
    before = contents(database, one.tables)
    moment = Moment(one.before)
    assert cycle(database, one.agent, moment_of(one), moment, options, monkeypatch).outcome == "done"
    assert moment.came
    assert contents(database, one.tables) != before


@pytest.mark.parametrize("one", TRANSACTIONS, ids=str)
def test_a_transaction_under_a_lost_lease_writes_nothing_at_all(
    database: Database, one: Transaction, place_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = prepared(database, one, place_file)
    before = contents(database, one.tables)
    moment = Moment(one.before, lambda: take_over(database, one.agent, one.tables))
    record = cycle(database, one.agent, moment_of(one), moment, options, monkeypatch)
    assert moment.came
    assert record.outcome == "lost_lease", record.error
    assert contents(database, one.tables) == before


@pytest.mark.parametrize("one", TRANSACTIONS, ids=str)
def test_a_transaction_that_loses_its_lease_is_not_committed(
    database: Database, one: Transaction, place_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = prepared(database, one, place_file)
    before = contents(database, one.tables)
    lose_when_written(database, one.tables)
    record = cycle(database, one.agent, moment_of(one), Moment(one.before), options, monkeypatch)
    assert record.outcome == "lost_lease", record.error
    assert contents(database, one.tables) == before


@pytest.mark.parametrize("one", TRANSACTIONS, ids=str)
def test_a_transaction_that_writes_waits_for_no_lock_without_end(
    database: Database, one: Transaction, place_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = prepared(database, one, place_file)
    want_limits(database, one.tables)
    record = cycle(database, one.agent, moment_of(one), Moment(one.before), options, monkeypatch)
    assert record.outcome == "done", record.error


def test_a_cycle_that_meets_a_lock_ends_and_can_be_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_tasks(database)
    with database.begin() as other:
        lock = Moment("after_snapshot", lambda: other.execute(sa.text("LOCK TABLE broker.decisions")))
        record = cycle(database, "production_task", small_grid.NOW, lock, {}, monkeypatch)
        assert lock.came
    assert (record.outcome, "lock timeout" in str(record.error)) == ("failed_transient", True)
    assert contents(database, ["broker.decisions"]) == {"broker.decisions": []}
    take_back(database)
    assert cycle(database, "production_task", small_grid.NOW, Moment("start"), {}, monkeypatch).outcome == "done"
