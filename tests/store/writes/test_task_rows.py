"""The task brokerage writes only what is unchanged since its decision."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.placements import NucleusAssignment, OutputPlace, TaskPlacement, WaitingTask
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms, StaleLeaseError
from broker.store.writes.job_rows import LOCK_WAIT_S
from broker.store.writes.task_rows import NucleiWritten, NucleusWriter
from tests.brokerages.small_grid import NOW, TASK
from tests.brokerages.task_grid import LOG, OUTPUT, rows, task_scenario, waiting

PLACES = (
    OutputPlace(OUTPUT, "ATLASDATADISK", "dst:A/ATLASDATADISK"),
    OutputPlace(LOG, "ATLASDATADISK", "dst:A/ATLASDATADISK"),
)
ASSIGNED = NucleusAssignment(TASK, None, "ALPHA", PLACES)
OTHER = TASK + 1
STATE = "SELECT jeditaskid, status, nucleus FROM doma_panda.jedi_tasks ORDER BY 1"


def write(database: Database, placement: TaskPlacement, *, lock_wait_s: float = LOCK_WAIT_S) -> NucleiWritten:
    with database.begin() as connection:
        writer = NucleusWriter(Database.raw(connection), database.names, NOW, lock_wait_s=lock_wait_s)
        return writer.write(placement)


def run(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement))


@pytest.fixture
def task_database(database: Database) -> Database:
    """Two tasks in status assigning, the first with its output datasets."""
    load(database, task_scenario(jedi_tasks=[waiting(), waiting(jeditaskid=OTHER)]))
    return database


def test_assignments_outputs_and_waiting_tasks_are_written(task_database: Database) -> None:
    result = write(task_database, TaskPlacement((ASSIGNED,), (WaitingTask(OTHER, None, "no_candidates"),)))
    assert result.counts == {"tasks_assigned": 1, "outputs_placed": 2, "tasks_waiting": 1, "tasks_skipped": 0}
    assert rows(task_database, STATE) == [(TASK, "ready", "ALPHA"), (OTHER, "assigning", None)]


TIMES = "SELECT superstatus, queuedtime, activatedtime FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000"
NAIVE = NOW.replace(tzinfo=None)
EARLIER = NAIVE - timedelta(hours=5)


@pytest.mark.parametrize(
    ("change", "times"),
    [
        ("", (NAIVE, NAIVE)),
        ("UPDATE doma_panda.jedi_tasks SET queuedtime = '2026-08-01T07:00:00'", (EARLIER, None)),
        ("UPDATE doma_panda.jedi_tasks SET activatedtime = '2026-08-01T07:00:00'", (NAIVE, EARLIER)),
        ("UPDATE doma_panda.jedi_datasets SET nfilesused = nfilestobeused", (None, None)),
        ("UPDATE doma_panda.jedi_datasets SET nfilestobeused = NULL", (None, None)),
    ],
)
def test_queuing_times_are_set_as_panda_sets_them(task_database: Database, change: str, times: Any) -> None:
    if change:
        run(task_database, change)
    write(task_database, TaskPlacement((ASSIGNED,)))
    assert rows(task_database, TIMES) == [("ready", *times)]


def test_deft_is_updated_where_it_exists(task_database: Database) -> None:
    run(
        task_database,
        "CREATE SCHEMA doma_deft; CREATE TABLE doma_deft.t_task (taskid bigint, status text, timestamp timestamp)",
    )
    run(task_database, "INSERT INTO doma_deft.t_task VALUES (7000, 'assigning', NULL), (7001, 'assigning', NULL)")
    write(task_database, TaskPlacement((ASSIGNED,), (WaitingTask(OTHER, None, "no_candidates"),)))
    deft_rows = rows(task_database, "SELECT taskid, status, timestamp FROM doma_deft.t_task ORDER BY 1")
    assert deft_rows == [(7000, "ready", NAIVE), (7001, "assigning", None)]


CHANGES = [
    "UPDATE doma_panda.jedi_tasks SET status = 'aborted' WHERE jeditaskid = 7000",
    "UPDATE doma_panda.jedi_tasks SET nucleus = 'BETA' WHERE jeditaskid = 7000",
    "UPDATE doma_panda.jedi_tasks SET modificationtime = '2026-08-01T11:59:00' WHERE jeditaskid = 7000",
    "UPDATE doma_panda.jedi_tasks SET lockedby = 'jedi', lockedtime = '2026-08-01T11:59:00' WHERE jeditaskid = 7000",
    "UPDATE doma_panda.jedi_datasets SET storagetoken = 'OTHER' WHERE datasetid = 8101",
    "UPDATE doma_panda.jedi_datasets SET storagetoken = NULL WHERE datasetid = 8100",
    "DELETE FROM doma_panda.jedi_datasets WHERE datasetid = 8101",
    "DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_task_and_its_outputs_are_not_touched(task_database: Database, change: str) -> None:
    run(task_database, change)
    before = rows(task_database, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    tasks = rows(task_database, STATE)
    other_assignment = NucleusAssignment(OTHER, None, "BETA", ())
    result = write(task_database, TaskPlacement((ASSIGNED, other_assignment)))
    assert result.tasks_skipped == {TASK} and result.assigned == 1
    after = rows(task_database, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    assert after == before
    assert rows(task_database, STATE) == [row for row in tasks if row[0] == TASK] + [(OTHER, "ready", "BETA")]


def test_an_expired_lock_is_ignored(task_database: Database) -> None:
    run(task_database, "UPDATE doma_panda.jedi_tasks SET lockedby = 'jedi', lockedtime = '2026-08-01T11:40:00'")
    assert write(task_database, TaskPlacement((ASSIGNED,))).assigned == 1


def test_a_row_locked_by_another_transaction_is_skipped(task_database: Database) -> None:
    with task_database.begin() as holder:
        holder.execute(sa.text("SELECT 1 FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000 FOR UPDATE"))
        assert write(task_database, TaskPlacement((ASSIGNED,)), lock_wait_s=0.05).tasks_skipped == {TASK}


def test_an_assignment_is_written_once(task_database: Database) -> None:
    first = write(task_database, TaskPlacement((ASSIGNED,)))
    second = write(task_database, TaskPlacement((ASSIGNED,)))
    assert (first.assigned, second.assigned, second.tasks_skipped) == (1, 0, {TASK})
    assert rows(task_database, "SELECT count(*) FROM doma_panda.tasks_statuslog") == [(1,)]


def test_a_waiting_task_with_an_unknown_nucleus_is_touched(task_database: Database) -> None:
    run(task_database, "UPDATE doma_panda.jedi_tasks SET nucleus = 'GONE' WHERE jeditaskid = 7000")
    assert write(task_database, TaskPlacement((), (WaitingTask(TASK, "GONE", "no_candidates"),))).waiting == 1
    assert write(task_database, TaskPlacement((), (WaitingTask(OTHER, "GONE", "no_candidates"),))).tasks_skipped == {
        OTHER
    }


def test_a_reason_is_truncated_to_the_column(task_database: Database) -> None:
    write(task_database, TaskPlacement((), (WaitingTask(TASK, None, "x" * 900),)))
    length = "SELECT length(errordialog) FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000"
    assert rows(task_database, length) == [(510,)]


def test_an_empty_placement_writes_nothing(task_database: Database) -> None:
    assert write(task_database, TaskPlacement()).counts["tasks_assigned"] == 0


def test_a_lost_lease_writes_nothing(task_database: Database) -> None:
    """The cycle's transaction is fenced: a holder that lost its lease writes nothing."""
    with task_database.begin() as connection:
        old = leases.acquire(connection, "production_task", "first", LeaseTerms()).lease
    assert old is not None
    run(task_database, "UPDATE broker.leases SET epoch = epoch + 1, holder = 'second'")

    def write_fenced() -> Any:
        with task_database.begin() as connection:
            leases.fence(connection, old)
            NucleusWriter(Database.raw(connection), task_database.names, NOW).write(TaskPlacement((ASSIGNED,)))
            leases.fence(connection, old, closing=True)

    with pytest.raises(StaleLeaseError):
        write_fenced()
    assert rows(task_database, STATE)[0] == (TASK, "assigning", None)
