"""The write-back of the task brokerage is conditional on everything that the decision saw."""

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


def write(database: Database, placement: TaskPlacement) -> NucleiWritten:
    with database.begin() as connection:
        return NucleusWriter(Database.raw(connection), database.names, NOW).write(placement)


def run(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement))


@pytest.fixture
def loaded(database: Database) -> Database:
    """Two tasks in assigning, the first with its output datasets."""
    load(database, task_scenario(jedi_tasks=[waiting(), waiting(jeditaskid=OTHER)]))
    return database


def test_all_of_it_is_written(loaded: Database) -> None:
    written = write(loaded, TaskPlacement((ASSIGNED,), (WaitingTask(OTHER, None, "no_candidates"),)))
    assert written.counts == {"tasks_assigned": 1, "outputs_placed": 2, "tasks_waiting": 1, "tasks_skipped": 0}
    assert rows(loaded, STATE) == [(TASK, "ready", "ALPHA"), (OTHER, "assigning", None)]


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
def test_the_times_of_queuing_are_those_that_panda_sets(loaded: Database, change: str, times: Any) -> None:
    if change:
        run(loaded, change)
    write(loaded, TaskPlacement((ASSIGNED,)))
    assert rows(loaded, TIMES) == [("ready", *times)]


def test_deft_is_told_where_it_is(loaded: Database) -> None:
    run(
        loaded,
        "CREATE SCHEMA doma_deft; CREATE TABLE doma_deft.t_task (taskid bigint, status text, timestamp timestamp)",
    )
    run(loaded, "INSERT INTO doma_deft.t_task VALUES (7000, 'assigning', NULL), (7001, 'assigning', NULL)")
    write(loaded, TaskPlacement((ASSIGNED,), (WaitingTask(OTHER, None, "no_candidates"),)))
    found = rows(loaded, "SELECT taskid, status, timestamp FROM doma_deft.t_task ORDER BY 1")
    assert found == [(7000, "ready", NAIVE), (7001, "assigning", None)]


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
def test_a_task_that_has_changed_is_left_alone_with_its_output(loaded: Database, change: str) -> None:
    run(loaded, change)
    before = rows(loaded, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    tasks = rows(loaded, STATE)
    other = NucleusAssignment(OTHER, None, "BETA", ())
    written = write(loaded, TaskPlacement((ASSIGNED, other)))
    assert written.tasks_skipped == {TASK} and written.assigned == 1
    after = rows(loaded, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    assert after == before
    assert rows(loaded, STATE) == [row for row in tasks if row[0] == TASK] + [(OTHER, "ready", "BETA")]


def test_an_old_lock_is_no_lock(loaded: Database) -> None:
    run(loaded, "UPDATE doma_panda.jedi_tasks SET lockedby = 'jedi', lockedtime = '2026-08-01T11:40:00'")
    assert write(loaded, TaskPlacement((ASSIGNED,))).assigned == 1


def test_a_row_that_another_transaction_holds_is_skipped(loaded: Database) -> None:
    with loaded.begin() as other:
        other.execute(sa.text("SELECT 1 FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000 FOR UPDATE"))
        assert write(loaded, TaskPlacement((ASSIGNED,))).tasks_skipped == {TASK}


def test_it_is_written_once(loaded: Database) -> None:
    first = write(loaded, TaskPlacement((ASSIGNED,)))
    second = write(loaded, TaskPlacement((ASSIGNED,)))
    assert (first.assigned, second.assigned, second.tasks_skipped) == (1, 0, {TASK})
    assert rows(loaded, "SELECT count(*) FROM doma_panda.tasks_statuslog") == [(1,)]


def test_a_waiting_task_with_an_unknown_nucleus_is_touched(loaded: Database) -> None:
    run(loaded, "UPDATE doma_panda.jedi_tasks SET nucleus = 'GONE' WHERE jeditaskid = 7000")
    assert write(loaded, TaskPlacement((), (WaitingTask(TASK, "GONE", "no_candidates"),))).waiting == 1
    assert write(loaded, TaskPlacement((), (WaitingTask(OTHER, "GONE", "no_candidates"),))).tasks_skipped == {OTHER}


def test_a_reason_is_cut_to_the_column(loaded: Database) -> None:
    write(loaded, TaskPlacement((), (WaitingTask(TASK, None, "x" * 900),)))
    length = "SELECT length(errordialog) FROM doma_panda.jedi_tasks WHERE jeditaskid = 7000"
    assert rows(loaded, length) == [(510,)]


def test_nothing_to_write(loaded: Database) -> None:
    assert write(loaded, TaskPlacement()).counts["tasks_assigned"] == 0


def test_a_lost_lease_writes_nothing(loaded: Database) -> None:
    """The transaction of a cycle is fenced: who has lost the lease leaves no trace."""
    with loaded.begin() as connection:
        old = leases.acquire(connection, "production_task", "first", LeaseTerms()).lease
    assert old is not None
    run(loaded, "UPDATE broker.leases SET epoch = epoch + 1, holder = 'second'")

    def fenced() -> Any:
        with loaded.begin() as connection:
            leases.fence(connection, old)
            NucleusWriter(Database.raw(connection), loaded.names, NOW).write(TaskPlacement((ASSIGNED,)))
            leases.fence(connection, old, closing=True)

    with pytest.raises(StaleLeaseError):
        fenced()
    assert rows(loaded, STATE)[0] == (TASK, "assigning", None)
