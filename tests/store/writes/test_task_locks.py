"""The writer waits for a briefly locked task and leaves a task that stays locked for the next cycle."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from broker.domain.placements import NucleusAssignment, Placement, TaskPlacement
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.writes.job_rows import AssignmentWriter
from broker.store.writes.task_rows import NucleusWriter
from tests.brokerages.small_grid import NOW as NOON, TASK
from tests.brokerages.task_grid import task_scenario, waiting
from tests.fault.processes import wait_until
from tests.store.small_work import NOW, placement, seed

LOCK = "SELECT 1 FROM doma_panda.jedi_tasks WHERE jeditaskid = :task FOR NO KEY UPDATE"
LOCK_IS_AWAITED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND database IS NULL)"
)


def _write_jobs(database: Database, job_placement: Placement, wait_s: float) -> frozenset[int]:
    with database.begin() as connection:
        writer = AssignmentWriter(Database.raw(connection), database.names, NOW, lock_wait_s=wait_s)
        return writer.write(job_placement).tasks_skipped


def _write_nuclei(database: Database, nucleus_placement: TaskPlacement, wait_s: float) -> frozenset[int]:
    with database.begin() as connection:
        return (
            NucleusWriter(Database.raw(connection), database.names, NOON, wait_s).write(nucleus_placement).tasks_skipped
        )


def _write_during_brief_lock(database: Database, task: int, write: object) -> list[frozenset[int]]:
    """Return the tasks that ``write`` skips when the task's lock is released as soon as the writer waits for it."""
    skipped: list[frozenset[int]] = []
    assert callable(write)
    writer = threading.Thread(target=lambda: skipped.append(write()))
    with database.begin() as holder:
        holder.execute(sa.text(LOCK), {"task": task})
        writer.start()
        with database.begin() as observer:
            wait_until(lambda: bool(observer.execute(LOCK_IS_AWAITED).scalar_one()), "the writer waits for the lock")
    writer.join(60)
    return skipped


def test_jobs_of_a_briefly_locked_task_are_written(database: Database) -> None:
    seed(database)
    job_placement = placement([(1, "CERN", [100, 101]), (2, "CERN", [200, 201])])
    assert _write_during_brief_lock(database, 1, lambda: _write_jobs(database, job_placement, 60.0)) == [frozenset()]


def test_the_nucleus_of_a_briefly_locked_task_is_written(database: Database) -> None:
    load(database, task_scenario(jedi_tasks=[waiting()]))
    nucleus_placement = TaskPlacement((NucleusAssignment(TASK, None, "ALPHA", ()),))
    assert _write_during_brief_lock(database, TASK, lambda: _write_nuclei(database, nucleus_placement, 60.0)) == [
        frozenset()
    ]


def test_only_the_task_that_stays_locked_is_skipped(database: Database) -> None:
    seed(database)
    job_placement = placement([(1, "CERN", [100, 101]), (2, "CERN", [200, 201])])
    with database.begin() as holder:
        holder.execute(sa.text(LOCK), {"task": 1})
        assert _write_jobs(database, job_placement, 0.01) == {1}


@pytest.mark.parametrize("locked", [True, False])
def test_the_lock_timeout_of_the_transaction_is_restored(database: Database, locked: bool) -> None:
    seed(database)
    if not locked:
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE doma_panda.jedi_tasks SET status = 'aborting' WHERE jeditaskid = 1"))
    with database.begin() as holder, database.begin() as connection:
        if locked:
            holder.execute(sa.text(LOCK), {"task": 1})
        connection.execute(sa.text("SET LOCAL lock_timeout = '7s'"))
        writer = AssignmentWriter(Database.raw(connection), database.names, NOW, lock_wait_s=0.01)
        assert writer.write(placement([(1, "CERN", [100])])).tasks_skipped == {1}
        assert connection.execute(sa.text("SHOW lock_timeout")).scalar_one() == "7s"
