from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.placements import Placement, TaskSeen
from broker.store.connection.database import Database
from broker.store.writes import job_row_sql as assignment_sql
from broker.store.writes.job_rows import (
    HOLDABLE_STATUSES,
    LOCK_WAIT_S,
    AssignmentWriter,
    ContendedFilesError,
    WriteBack,
)
from tests.store.small_work import NAIVE_NOW, NOW, all_rows, placement, seed

THREE_JOBS: list[tuple[int, str, Sequence[int]]] = [
    (1, "CERN", [100, 101]),
    (1, 'BNL\'s "queue"\n100%', [102, 103]),
    (2, "CERN", [200, 201]),
]


def write(
    database: Database, job_placement: Placement, now: datetime = NOW, *, lock_wait_s: float = LOCK_WAIT_S
) -> WriteBack:
    with database.begin() as connection:
        writer = AssignmentWriter(Database.raw(connection), database.names, now, lock_wait_s=lock_wait_s)
        return writer.write(job_placement)


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


def jobs(database: Database) -> list[dict[str, Any]]:
    return all_rows(database, "SELECT * FROM doma_panda.jobsdefined4 ORDER BY pandaid")


def files(database: Database) -> dict[int, dict[str, Any]]:
    rows = all_rows(database, "SELECT * FROM doma_panda.jedi_dataset_contents ORDER BY fileid")
    return {row["fileid"]: row for row in rows}


def task(database: Database, jeditaskid: int) -> dict[str, Any]:
    (row,) = all_rows(database, f"SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = {jeditaskid}")
    return row


def test_jobs_get_their_own_columns_and_their_tasks_columns(database: Database) -> None:
    seed(database)
    result = write(database, placement(THREE_JOBS))
    assert result.kept.tolist() == [True, True, True]
    new_jobs = jobs(database)
    assert [(job["jeditaskid"], job["computingsite"]) for job in new_jobs] == [(t, q) for t, q, _ in THREE_JOBS]
    expected = {
        "jobstatus": "defined",
        "resource_type": "MCORE",
        "corecount": 8,
        "minramcount": 16000,
        "minramunit": "MB",
        "maxdiskcount": 20000,
        "maxwalltime": 86400,
        "maxcpucount": 600000,
        "nevents": 100,
        "inputfilebytes": 2000,
        "ninputdatafiles": 2,
        "currentpriority": 500,
        "assignedpriority": 400,
        "gshare": "Simulation",
        "workqueue_id": 1,
        "nucleus": "CERN",
        "cloud": "WORLD",
        "vo": "atlas",
        "prodsourcelabel": "managed",
        "processingtype": "simul",
        "workinggroup": "AP_SIM",
        "produsername": "prodsys",
        "transformation": "Sim_tf.py",
        "homepackage": "AtlasOffline/25.0.1",
        "atlasrelease": "Atlas-25.0.1",
        "cmtconfig": "x86_64-el9",
        "reqid": 77,
        "attemptnr": 0,
        "starttime": None,
        "creationtime": NAIVE_NOW,
        "modificationtime": NAIVE_NOW,
        "statechangetime": NAIVE_NOW,
    }
    assert {name: new_jobs[0][name] for name in expected} == expected


def test_unknown_values_are_null_where_the_table_allows_it(database: Database) -> None:
    seed(database)
    columns = ("resource_type", "corecount", "maxwalltime_s", "inputfilebytes", "ninputdatafiles")
    unknown = dict.fromkeys((*columns, "nevents", "minramcount_mb", "maxdiskcount_mb", "maxcpucount_s"), -1)
    write(database, placement([(1, "CERN", [100])], merging=True, **unknown))
    (job,) = jobs(database)
    nullable = ("resource_type", "corecount", "maxwalltime", "inputfilebytes", "ninputdatafiles")
    assert [job[name] for name in nullable] == [None] * 5
    assert [job[name] for name in ("nevents", "minramcount", "maxdiskcount", "maxcpucount")] == [0] * 4
    assert job["processingtype"] == "pmerge"


@pytest.mark.parametrize(
    ("platform", "expected"), [("p@el9", "p@el9"), ("", None), ("a\0\ud800", "a\ufffd?"), ("x" * 300, "x" * 250)]
)
def test_a_job_has_the_platform_of_its_queue(database: Database, platform: str, expected: str | None) -> None:
    seed(database)
    job_placement = replace(placement([(1, "CERN", [100])], platform=1), platforms=("other", platform))
    write(database, job_placement)
    assert [job["cmtconfig"] for job in jobs(database)] == [expected]


def test_a_job_without_a_known_platform_has_none(database: Database) -> None:
    seed(database)
    write(database, placement([(1, "CERN", [100])], platform=-1))
    assert [job["cmtconfig"] for job in jobs(database)] == [None]


def test_files_are_marked_counted_and_recorded_with_their_job(database: Database) -> None:
    seed(database)
    result = write(database, placement(THREE_JOBS))
    new_jobs = jobs(database)
    file_rows = files(database)
    for job, (_, _, ids) in zip(new_jobs, THREE_JOBS, strict=True):
        for fileid in ids:
            row = file_rows[fileid]
            assert (row["status"], row["proc_status"], row["pandaid"], row["attemptnr"]) == (
                "running",
                "queued",
                job["pandaid"],
                0,
            )
    assert {fileid for fileid, row in file_rows.items() if row["status"] == "ready"} == {104, 105, 202, 203, 204, 205}
    datasets = all_rows(database, "SELECT datasetid, nfilesused, neventsused FROM doma_panda.jedi_datasets ORDER BY 1")
    assert [tuple(row.values()) for row in datasets] == [(10, 4, 200), (20, 2, 100)]
    records = all_rows(database, "SELECT * FROM doma_panda.filestable4 ORDER BY jeditaskid, fileid")
    assert [row["fileid"] for row in records] == [100, 101, 102, 103, 200, 201]
    assert records[0]["pandaid"] == new_jobs[0]["pandaid"]
    assert (records[0]["lfn"], records[0]["dataset"], records[0]["fsize"]) == ("file.0", "mc23:input", 1000)
    assert result.counts == {
        "jobs": 3,
        "files": 6,
        "tasks_skipped": 0,
        "skipped_changed": 0,
        "tasks_waiting": 0,
    }


def test_a_shared_file_is_recorded_with_every_job_and_stays_unchanged(database: Database) -> None:
    seed(database)
    result = write(database, placement([(1, "CERN", [100, 105]), (1, "CERN", [101, 105])], shared=[105]))
    assert result.files == 2
    assert files(database)[105]["status"] == "ready"
    records = all_rows(database, "SELECT pandaid FROM doma_panda.filestable4 WHERE fileid = 105 ORDER BY 1")
    assert [row["pandaid"] for row in records] == [job["pandaid"] for job in jobs(database)]
    assert all_rows(database, "SELECT nfilesused FROM doma_panda.jedi_datasets WHERE datasetid = 10") == [
        {"nfilesused": 2}
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE doma_panda.jedi_dataset_contents SET status = 'running', pandaid = 9 WHERE fileid = 103",
        "UPDATE doma_panda.jedi_dataset_contents SET status = 'lost' WHERE fileid = 103",
        "UPDATE doma_panda.jedi_dataset_contents SET attemptnr = 1 WHERE fileid = 103",
        "UPDATE doma_panda.jedi_dataset_contents SET attemptnr = NULL WHERE fileid = 103",
        "DELETE FROM doma_panda.jedi_dataset_contents WHERE fileid = 103",
    ],
)
def test_a_job_with_a_changed_file_is_not_created_at_all(database: Database, statement: str) -> None:
    seed(database)
    change(database, statement)
    before = files(database)
    result = write(database, placement(THREE_JOBS))
    assert result.kept.tolist() == [True, False, True]
    assert (result.skipped_changed, result.files) == (1, 4)
    assert len(jobs(database)) == 2
    after = files(database)
    assert {id_: after[id_] for id_ in after if id_ in (102, 103)} == {
        id_: before[id_] for id_ in before if id_ in (102, 103)
    }
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.filestable4") == [{"n": 4}]
    assert all_rows(database, "SELECT nfilesused FROM doma_panda.jedi_datasets WHERE datasetid = 10") == [
        {"nfilesused": 2}
    ]


def test_a_file_claimed_by_two_jobs_goes_to_at_most_one(database: Database) -> None:
    seed(database)
    result = write(database, placement([(1, "CERN", [100, 101]), (1, "CERN", [101, 102])]))
    assert result.skipped_changed == 1
    assert len(jobs(database)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE doma_panda.jedi_tasks SET status = 'aborting' WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET status = 'pending' WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET nucleus = 'BNL' WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET nucleus = NULL WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET lockedby = 'x', lockedtime = '2026-08-01 11:50:01' WHERE jeditaskid = 1",
        "DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid = 1",
    ],
)
def test_a_changed_task_is_skipped_with_all_its_jobs(database: Database, statement: str) -> None:
    seed(database)
    change(database, statement)
    result = write(database, placement(THREE_JOBS))
    assert result.kept.tolist() == [False, False, True]
    assert result.tasks_skipped == {1}
    assert {row["status"] for id_, row in files(database).items() if id_ < 200} == {"ready"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE doma_panda.jedi_tasks SET status = 'running' WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET lockedby = 'x', lockedtime = '2026-08-01 11:49:59' WHERE jeditaskid = 1",
        "UPDATE doma_panda.jedi_tasks SET lockedby = 'x' WHERE jeditaskid = 1",
    ],
)
def test_a_task_with_a_harmless_change_is_still_written(database: Database, statement: str) -> None:
    seed(database)
    change(database, statement)
    assert write(database, placement(THREE_JOBS)).kept.all()


def test_a_task_locked_by_another_writer_is_left_for_the_next_cycle(database: Database) -> None:
    seed(database)
    with database.begin() as other_writer:
        other_writer.execute(sa.text("UPDATE doma_panda.jedi_tasks SET goal = 1 WHERE jeditaskid = 1"))
        assert write(database, placement(THREE_JOBS), lock_wait_s=0.05).tasks_skipped == {1}
    assert write(database, placement(THREE_JOBS[:2])).kept.all()


@pytest.mark.parametrize(
    ("before", "scout", "after"),
    [
        ("ready", False, "running"),
        ("ready", True, "scouting"),
        ("running", False, "running"),
        ("scouting", True, "scouting"),
        ("topreprocess", False, "preprocessing"),
        ("preprocessing", False, "preprocessing"),
    ],
)
def test_a_task_with_jobs_advances_and_is_no_longer_frozen(
    database: Database, before: str, scout: bool, after: str
) -> None:
    seed(database, tasks=[1], status=before)
    write(database, placement([(1, "CERN", [100])], tasks=[TaskSeen(1, before, "CERN", scout)]))
    row = task(database, 1)
    assert (row["status"], row["frozentime"], row["modificationtime"]) == (after, None, NAIVE_NOW)
    log = all_rows(database, "SELECT status FROM doma_panda.tasks_statuslog")
    assert [entry["status"] for entry in log] == ([after] if after != before else [])


def test_a_task_without_candidates_waits_with_its_reason(database: Database) -> None:
    seed(database, tasks=[1])
    change(database, "UPDATE doma_panda.jedi_tasks SET frozentime = NULL")
    result = write(database, placement([], waiting={1: "no candidates\0" + "x" * 600}))
    row = task(database, 1)
    assert result.waiting == 1
    assert (row["status"], row["oldstatus"]) == ("pending", "ready")
    assert row["frozentime"] == row["modificationtime"] == NAIVE_NOW
    assert row["errordialog"].startswith("no candidates")
    assert len(row["errordialog"]) == 510


@pytest.mark.parametrize(
    ("status", "is_held"),
    [
        *((status, True) for status in HOLDABLE_STATUSES),
        *((status, False) for status in ("pending", "aborting", "toabort", "done", "broken", "paused", "throttled")),
    ],
)
def test_only_holdable_tasks_are_put_on_hold(database: Database, status: str, is_held: bool) -> None:
    """This also holds without a lock on the task, as for a task that the decision did not see."""
    seed(database, tasks=[1], status=status)
    result = write(database, placement([], tasks=[], waiting={1: "no candidates"}))
    assert result.waiting == int(is_held)
    assert task(database, 1)["status"] == ("pending" if is_held else status)


def test_the_time_of_the_first_brokerage_failure_is_preserved(database: Database) -> None:
    seed(database, tasks=[1])
    write(database, placement([], waiting={1: "no candidates"}))
    assert task(database, 1)["frozentime"] == datetime(2026, 7, 30, tzinfo=UTC).replace(tzinfo=None)


def test_a_task_with_jobs_of_another_chunk_does_not_wait(database: Database) -> None:
    seed(database)
    result = write(database, placement(THREE_JOBS, waiting={1: "second chunk: no candidates"}))
    assert result.waiting == 0
    assert task(database, 1)["status"] == "running"


def test_a_task_whose_jobs_were_all_skipped_keeps_its_status(database: Database) -> None:
    seed(database, tasks=[1])
    change(database, "UPDATE doma_panda.jedi_dataset_contents SET status = 'lost' WHERE fileid = 100")
    write(database, placement([(1, "CERN", [100])]))
    assert task(database, 1)["status"] == "ready"


@pytest.mark.parametrize(("minutes", "expected"), [(59, 0), (60, 1)])
def test_a_waiting_task_is_brokered_again_after_an_hour(database: Database, minutes: int, expected: int) -> None:
    seed(database, tasks=[1])
    write(database, placement([], waiting={1: "no candidates"}))
    with database.begin() as connection:
        later = NOW + timedelta(minutes=minutes)
        assert AssignmentWriter(Database.raw(connection), database.names, later).reactivate() == expected
    assert task(database, 1)["status"] == ("ready" if expected else "pending")


def test_a_task_put_on_hold_by_another_program_is_not_reactivated(database: Database) -> None:
    seed(database, tasks=[1])
    change(database, "UPDATE doma_panda.jedi_tasks SET status = 'pending', oldstatus = 'registered'")
    with database.begin() as connection:
        later = NOW + timedelta(days=1)
        assert AssignmentWriter(Database.raw(connection), database.names, later).reactivate() == 0


def test_a_failed_transaction_stores_nothing(database: Database) -> None:
    seed(database)
    with pytest.raises(ZeroDivisionError), database.begin() as connection:
        AssignmentWriter(Database.raw(connection), database.names, NOW).write(placement(THREE_JOBS))
        raise ZeroDivisionError
    assert jobs(database) == []
    assert {row["status"] for row in files(database).values()} == {"ready"}


def test_files_that_keep_changing_abort_the_write(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:

    seed(database)
    change(database, "UPDATE doma_panda.jedi_dataset_contents SET status = 'lost' WHERE fileid = 103")
    nothing = "SELECT job FROM staged_jobs WHERE false"
    monkeypatch.setattr(assignment_sql, "JOBS_WITH_CHANGED_FILES", nothing)
    with pytest.raises(ContendedFilesError):
        write(database, placement(THREE_JOBS))
    assert jobs(database) == []


def test_an_empty_placement_writes_nothing(database: Database) -> None:
    seed(database)
    assert set(write(database, placement([])).counts.values()) == {0}
