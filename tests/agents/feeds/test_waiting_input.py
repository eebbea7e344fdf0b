"""Tasks that wait for their input go on when Rucio answers, in the cycle of ``rucio_replicas`` that gets the answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from broker.domain.decisions import RETRY_AFTER
from broker.store.connection.database import Database
from tests.agents.feeds.fake_rucio import FakeRucio, replica
from tests.agents.feeds.running import PROCESS, Feeding
from tests.agents.feeds.wanting import want
from tests.feeds.documents import NOW


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)


@pytest.fixture
def rucio() -> FakeRucio:
    return FakeRucio()


def agent(rucio: FakeRucio) -> RucioReplicasAgent:
    return RucioReplicasAgent(ReplicaOptions(requests_per_s=10_000), PROCESS, lambda _: rucio)


def did(name: str) -> tuple[str, str]:
    return "mc23", name


def add_waiting_task(feeding: Feeding, task: int, reason: str, seen_at: datetime = NOW, **columns: Any) -> None:
    """Insert a task whose last decision was to wait for this reason."""
    want(feeding.database, task, f"mc23:d{task}", **{"status": "pending", "oldstatus": "running"} | columns)
    with feeding.database.begin() as connection:
        connection.execute(
            sa.text("""
                INSERT INTO broker.chunk_states (last_seen_at, brokerage, jeditaskid, decision, decided_at, outcome,
                    reason, outcome_since, decisions, seen_again, candidate_count, jobs, assigned, state, work_state)
                VALUES (:at, 'job', :task, :task, :at, 'pending', :reason, :at, 1, 0, 0, 0, '{}', '', '')"""),
            {"at": seen_at, "task": task, "reason": reason},
        )


def statuses(feeding: Feeding) -> list[tuple[Any, ...]]:
    return feeding.rows("SELECT jeditaskid, status, oldstatus FROM {panda}.jedi_tasks ORDER BY 1")


def test_a_task_goes_on_when_rucio_has_answered_for_its_input(feeding: Feeding, rucio: FakeRucio) -> None:
    reasons = ("dataset_not_asked", "unknown_dataset", "no_complete_replica", "lowmemory", "dataset_not_asked")
    for task, reason in enumerate(reasons, 1):
        add_waiting_task(feeding, task, reason)
    rucio.replicas = {did(f"d{task}"): [replica("DISK")] for task in range(1, 5)}
    report = feeding.run(agent(rucio))
    assert report.counts["tasks_reactivated"] == 3
    reactivated = [(task, "running", None) for task in (1, 2, 3)]
    assert statuses(feeding) == [*reactivated, (4, "pending", "running"), (5, "pending", "running")]
    log = "SELECT jeditaskid, status, reason FROM {panda}.tasks_statuslog ORDER BY 1"
    assert feeding.rows(log) == [(task, "running", "Rucio has answered for its input") for task in (1, 2, 3)]


@pytest.mark.parametrize(("later_s", "goes_on"), [(119, True), (120, False)])
def test_an_answer_that_the_decision_has_seen_changes_nothing(
    feeding: Feeding, rucio: FakeRucio, later_s: int, goes_on: bool
) -> None:
    add_waiting_task(feeding, 1, "no_complete_replica", NOW + timedelta(seconds=later_s))
    rucio.replicas = {did("d1"): [replica("DISK")]}
    assert feeding.run(agent(rucio)).counts["tasks_reactivated"] == int(goes_on)


def test_a_task_with_a_container_goes_on_when_its_contents_are_known(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.containers = {did("d1"): [did("in1"), did("in2")]}
    rucio.replicas = {did("in1"): [replica("DISK")], did("in2"): [replica("DISK")]}
    rucio.failing = {did("in2")}
    add_waiting_task(feeding, 1, "dataset_not_asked", NOW - timedelta(minutes=1))
    assert feeding.run(agent(rucio)).counts["tasks_reactivated"] == 1
    statement = "UPDATE {panda}.jedi_tasks SET status = 'pending', oldstatus = 'ready' RETURNING 1"
    feeding.rows(statement)
    feeding.rows("UPDATE {broker}.chunk_states SET last_seen_at = last_seen_at + interval '4 minutes' RETURNING 1")
    rucio.failing = set()
    assert feeding.run(agent(rucio), NOW + timedelta(minutes=5)).counts["tasks_reactivated"] == 1
    assert statuses(feeding) == [(1, "ready", None)]


def test_a_task_without_a_nucleus_is_tried_again_at_once(feeding: Feeding, rucio: FakeRucio) -> None:
    add_waiting_task(
        feeding, 1, "unknown_dataset", status="assigning", oldstatus=None, modificationtime=NOW.isoformat()
    )
    rucio.replicas = {did("d1"): [replica("DISK")]}
    assert feeding.run(agent(rucio)).counts["tasks_reactivated"] == 1
    ((status, modified),) = feeding.rows("SELECT status, modificationtime FROM {panda}.jedi_tasks")
    assert status == "assigning" and modified == NOW.replace(tzinfo=None) - 2 * RETRY_AFTER
