"""A task that another agent has locked for a moment is waited for; one that stays locked is left for the next cycle."""

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
WAITS = sa.text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND database IS NULL)"
)


def _write_jobs(database: Database, placed: Placement, wait_s: float) -> frozenset[int]:
    with database.begin() as connection:
        writer = AssignmentWriter(Database.raw(connection), database.names, NOW, lock_wait_s=wait_s)
        return writer.write(placed).tasks_skipped


def _write_nuclei(database: Database, placed: TaskPlacement, wait_s: float) -> frozenset[int]:
    with database.begin() as connection:
        return NucleusWriter(Database.raw(connection), database.names, NOON, wait_s).write(placed).tasks_skipped


def _while_locked(database: Database, task: int, write: object) -> list[frozenset[int]]:
    """What ``write`` skips when the lock of a task ends as soon as it is waited for."""
    skipped: list[frozenset[int]] = []
    assert callable(write)
    writer = threading.Thread(target=lambda: skipped.append(write()))
    with database.begin() as other:
        other.execute(sa.text(LOCK), {"task": task})
        writer.start()
        with database.begin() as watching:
            wait_until(lambda: bool(watching.execute(WAITS).scalar_one()), "the writer waits for the lock")
    writer.join(60)
    return skipped


def test_jobs_of_a_task_that_is_locked_for_a_moment_are_written(database: Database) -> None:
    seed(database)
    placed = placement([(1, "CERN", [100, 101]), (2, "CERN", [200, 201])])
    assert _while_locked(database, 1, lambda: _write_jobs(database, placed, 60.0)) == [frozenset()]


def test_the_nucleus_of_a_task_that_is_locked_for_a_moment_is_written(database: Database) -> None:
    load(database, task_scenario(jedi_tasks=[waiting()]))
    placed = TaskPlacement((NucleusAssignment(TASK, None, "ALPHA", ()),))
    assert _while_locked(database, TASK, lambda: _write_nuclei(database, placed, 60.0)) == [frozenset()]


def test_only_the_task_that_stays_locked_is_left_out(database: Database) -> None:
    seed(database)
    placed = placement([(1, "CERN", [100, 101]), (2, "CERN", [200, 201])])
    with database.begin() as other:
        other.execute(sa.text(LOCK), {"task": 1})
        assert _write_jobs(database, placed, 0.01) == {1}


@pytest.mark.parametrize("locked", [True, False])
def test_the_limit_on_locks_of_the_transaction_stays(database: Database, locked: bool) -> None:
    seed(database)
    if not locked:
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE doma_panda.jedi_tasks SET status = 'aborting' WHERE jeditaskid = 1"))
    with database.begin() as other, database.begin() as connection:
        if locked:
            other.execute(sa.text(LOCK), {"task": 1})
        connection.execute(sa.text("SET LOCAL lock_timeout = '7s'"))
        writer = AssignmentWriter(Database.raw(connection), database.names, NOW, lock_wait_s=0.01)
        assert writer.write(placement([(1, "CERN", [100])])).tasks_skipped == {1}
        assert connection.execute(sa.text("SHOW lock_timeout")).scalar_one() == "7s"
