from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.lifecycle.model.jobs import FAILURES, NOT_RECOVERED, TRANSFER_TIMEOUT, watcher_code
from broker.lifecycle.statements.actions import ActOutcome, JobAction
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.writes.job_rows import AssignmentWriter
from tests.lifecycle.statements.acted_jobs import (
    BACK,
    LOST,
    SEEN,
    archived,
    columns_of,
    content,
    counters,
    dataset,
    do,
    file,
    job,
    only_row,
    store,
)
from tests.store.small_work import NAIVE_NOW, NOW, all_rows, placement, seed


def test_a_withdrawn_job_is_closed_and_its_input_released(shared_database: Database) -> None:
    store(shared_database, [job(nevents=77)], [file()])
    assert do(shared_database, BACK) == ActOutcome((5,), (), 1, 0)
    row = archived(shared_database)
    assert columns_of(row, "jobstatus jobsubstatus commandtopilot") == ("closed", "toreassign", "tobekilled")
    assert columns_of(row, "endtime modificationtime statechangetime") == (NAIVE_NOW,) * 3
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode nevents computingsite") == (100, None, 77, "Q")
    assert "rule activated, 200000 s, limit 172800 s" in row["taskbuffererrordiag"]
    assert content(shared_database) == ("ready", "ready", 1, 0, 5)
    assert counters(shared_database) == (3, 0, 2, 150)
    assert only_row(shared_database, "doma_panda.jedi_tasks")["queuedtime"] == NAIVE_NOW
    assert only_row(shared_database, "doma_panda.jobs_statuslog")["jobstatus"] == "closed"
    assert columns_of(
        only_row(shared_database, "broker.rebrokered_from"), "jeditaskid datasetid queue rebrokered_at"
    ) == (
        1,
        10,
        "Q",
        NOW,
    )


def test_actions_are_recorded_with_rule_value_and_limit(shared_database: Database) -> None:
    store(shared_database, [job()], [])
    do(shared_database, replace(BACK, detail={"excess": 3}))
    row = only_row(shared_database, "broker.job_actions")
    assert columns_of(row, "agent_run agent pandaid jeditaskid queue") == (7, "timeouts", 5, 1, "Q")
    assert columns_of(row, "old_status new_status rule action code") == (
        "activated",
        "closed",
        "activated",
        "reassigned",
        51,
    )
    assert columns_of(row, "value_s limit_s detail acted_at") == (200_000.0, 172_800.0, {"excess": 3}, NOW)


def test_a_lost_job_also_counts_as_a_failure(shared_database: Database) -> None:
    store(shared_database, [job(jobstatus="running", jobsubstatus="was")], [file()])
    do(shared_database, LOST)
    row = archived(shared_database)
    assert columns_of(row, "jobstatus jobsubstatus commandtopilot") == ("failed", "was", None)
    assert columns_of(row, "jobdispatchererrorcode taskbuffererrorcode endtime") == (100, None, SEEN)
    assert content(shared_database) == ("ready", "ready", 1, 1, 5)
    assert counters(shared_database) == (3, 0, 2, 150)
    assert all_rows(shared_database, "SELECT 1 FROM broker.rebrokered_from") == []


def test_the_two_codes_101_are_stored_in_different_columns(shared_database: Database) -> None:
    store(shared_database, [job(jobstatus="transferring", endtime="2026-07-20")], [])
    do(shared_database, replace(LOST, old_status="transferring", code=TRANSFER_TIMEOUT, error="taskbuffer"))
    row = archived(shared_database)
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode endtime") == (
        101,
        None,
        datetime.fromisoformat("2026-07-20T00:00:00"),
    )
    store(shared_database, [job(jobstatus="running", taskbuffererrordiag="kept")], [])
    do(shared_database, replace(LOST, code=NOT_RECOVERED))
    row = archived(shared_database)
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode taskbuffererrordiag") == (None, 101, "kept")


def test_an_earlier_dispatcher_error_is_kept_with_its_code(shared_database: Database) -> None:
    cases = [(9, "x", False, 9, "x"), (None, "x", False, 0, "x"), (100, "", False, 100, ""), (9, "x", True, 101, "")]
    for code, diag, has_error, final, kept in cases:
        store(shared_database, [job(jobstatus="running", jobdispatchererrorcode=code, jobdispatchererrordiag=diag)], [])
        new = watcher_code("running", has_ended=False, has_error=has_error, dispatcher_diag=diag, dispatcher_code=code)
        do(shared_database, replace(LOST, code=new))
        text = kept or f"{FAILURES['jobdispatcher', final]}: rule heartbeat, 8000 s, limit 7200 s"
        assert columns_of(archived(shared_database), "jobdispatchererrorcode jobdispatchererrordiag") == (final, text)


ATTEMPTS = [
    # attemptnr, maxattempt, failedattempt, maxfailure; released after code 51, released after a lost heartbeat
    (1, 3, 0, None, True, True),
    (2, 3, 0, None, False, False),
    (0, 3, 1, 3, True, True),
    (0, 3, 2, 3, True, False),
    (0, 3, 3, 3, False, False),
]


@pytest.mark.parametrize("move", [BACK, LOST], ids=["code 51", "lost heartbeat"])
def test_the_last_attempt_counts_as_failed(shared_database: Database, move: JobAction) -> None:
    for attempt, max_attempt, failed, max_failure, after_51, after_lost in ATTEMPTS:
        numbers = {"attemptnr": attempt, "maxattempt": max_attempt, "failedattempt": failed, "maxfailure": max_failure}
        store(shared_database, [job(jobstatus=move.old_status)], [file(**numbers)])
        is_released = after_51 if move is BACK else after_lost
        assert do(shared_database, move).files_lost == (not is_released), numbers
        count = failed + (move is LOST)
        assert content(shared_database) == ("ready", "ready" if is_released else "failed", attempt + 1, count, 5), (
            numbers
        )
        assert counters(shared_database) == ((3, 0, 2, 150) if is_released else (4, 1, 2, 200)), numbers
        assert bool(all_rows(shared_database, "SELECT 1 FROM broker.rebrokered_from")) == (is_released and move is BACK)


def test_counters_ignore_secondary_files_and_files_of_other_attempts(shared_database: Database) -> None:
    files = [
        file(100, maxattempt=None),
        file(101, keeptrack=0),
        file(102, pandaid=6),
        file(103, status="finished"),
        file(104, attemptnr=1),
        file(105, datasetid=11, type="output", status="defined"),
    ]
    records = [{"row_id": 1, "pandaid": 5, "datasetid": 10, "fileid": 104, "attemptnr": 0, "type": "input"}]
    store(shared_database, [job()], files, filestable4=records, jedi_datasets=[dataset(), dataset(11, type="output")])
    assert do(shared_database, BACK).files == 1
    assert content(shared_database, 100) == ("ready", "queued", 1, 0, 5)
    assert [content(shared_database, number)[0] for number in (101, 102, 103, 104)] == [
        "running",
        "running",
        "finished",
        "running",
    ]
    assert content(shared_database, 105)[:2] == ("cancelled", "queued")
    assert counters(shared_database) == (4, None, 2, 200)
    assert counters(shared_database, 11)[:2] == (4, 1)


@pytest.mark.parametrize(
    ("status", "is_changed"), [("running", True), ("exhausted", True), ("done", False), ("aborted", False)]
)
def test_files_of_an_ended_task_are_not_changed(shared_database: Database, status: str, is_changed: bool) -> None:
    files = [file(100), file(105, datasetid=11, type="output")]
    datasets = [dataset(nfilesfailed=0), dataset(11, type="output", nfilesfailed=0)]
    store(shared_database, [job()], files, jedi_datasets=datasets, jedi_tasks=[{"jeditaskid": 1, "status": status}])
    assert do(shared_database, BACK) == ActOutcome((5,), (), int(is_changed), 0)
    assert archived(shared_database)["jobstatus"] == "closed"
    assert [content(shared_database, n)[0] for n in (100, 105)] == (
        ["ready", "cancelled"] if is_changed else ["running"] * 2
    )
    assert counters(shared_database) == ((3, 0, 2, 150) if is_changed else (4, 0, 2, 200))
    assert counters(shared_database, 11)[1] == int(is_changed)


@pytest.mark.parametrize(("move", "status"), [(BACK, "cancelled"), (LOST, "failed")], ids=["closed", "failed"])
def test_output_gets_the_status_of_its_job(shared_database: Database, move: JobAction, status: str) -> None:
    files = [file(105, datasetid=11, type="output"), file(106, datasetid=11, type="log", keeptrack=0)]
    store(shared_database, [job(jobstatus=move.old_status)], files, jedi_datasets=[dataset(11, type="output")])
    do(shared_database, move)
    assert [content(shared_database, number)[0] for number in (105, 106)] == [status, "running"]
    assert counters(shared_database, 11)[1] == 1


def test_files_are_also_found_by_the_record_of_the_job(shared_database: Database) -> None:
    def record(fileid: int, attemptnr: int, kind: str = "input") -> dict[str, Any]:
        return {"row_id": fileid, "pandaid": 5, "datasetid": 10, "fileid": fileid, "attemptnr": attemptnr, "type": kind}

    files = [
        file(100, pandaid=None),
        file(101, pandaid=None),
        file(102, pandaid=6),
        file(103, pandaid=None, status="ready"),
    ]
    store(shared_database, [job()], files, filestable4=[record(100, 0), record(101, 1), record(102, 0), record(103, 0)])
    assert do(shared_database, BACK).files == 1
    assert content(shared_database, 100)[:3] == ("ready", "ready", 1)
    assert [content(shared_database, number)[:3:2] for number in (101, 102, 103)] == [
        ("running", 0),
        ("running", 0),
        ("ready", 0),
    ]
    assert counters(shared_database) == (3, 0, 2, 150)


@pytest.mark.parametrize(
    ("of_record", "of_file", "released"),
    [(0, 0, True), (1, 0, False), (0, 1, False), (None, 1, True), (0, None, False)],
)
def test_a_marked_file_belongs_to_the_job_in_the_attempt_of_its_record(
    shared_database: Database, of_record: int | None, of_file: int | None, released: bool
) -> None:
    """The same holds for input and output; a record without an attempt is ignored."""
    kinds = {100: "input", 105: "output"}
    files = [file(number, type=kind, attemptnr=of_file) for number, kind in kinds.items()]
    common = {"pandaid": 5, "datasetid": 10, "attemptnr": of_record}
    records = [{"row_id": fileid, "fileid": fileid, "type": kind, **common} for fileid, kind in kinds.items()]
    store(shared_database, [job()], files, filestable4=records)
    assert do(shared_database, BACK).files == released
    assert [content(shared_database, number)[0] for number in kinds] == (
        ["ready", "cancelled"] if released else ["running"] * 2
    )


def test_output_is_also_found_by_the_record_of_the_job(shared_database: Database) -> None:
    """An unmarked file in the attempt of the record counts; files of other jobs or attempts are not changed."""
    marks: list[tuple[int, int | None, int]] = [(105, None, 0), (106, None, 1), (107, 6, 0)]
    files = [file(number, pandaid=mark, type="output", attemptnr=attempt) for number, mark, attempt in marks]
    common = {"pandaid": 5, "datasetid": 10, "attemptnr": 0, "type": "output"}
    store(
        shared_database,
        [job()],
        files,
        filestable4=[{"row_id": number, "fileid": number, **common} for number, _, _ in marks],
    )
    do(shared_database, BACK)
    assert [content(shared_database, number)[0] for number, _, _ in marks] == ["cancelled", "running", "running"]


def test_transferring_jobs_release_held_input_and_their_output_fails(shared_database: Database) -> None:
    record = {"row_id": 1, "pandaid": 5, "datasetid": 11, "fileid": 105, "type": "output", "status": "transferring"}
    store(shared_database, [job(jobstatus="transferring")], [file()], filestable4=[record])
    do(shared_database, replace(LOST, old_status="transferring", error="taskbuffer", code=TRANSFER_TIMEOUT))
    assert counters(shared_database) == (3, 0, 1, 150)
    assert only_row(shared_database, "doma_panda.filestable4")["status"] == "failed"


def test_a_killed_running_job_only_gets_a_command(shared_database: Database) -> None:
    store(shared_database, [job(jobstatus="running")], [file()])
    kill = JobAction(5, "jobsactive4", "running", SEEN, "Q", 1, "running", "killed", 2, 2e6, 1814400.0)
    assert do(shared_database, kill) == ActOutcome((5,), ())
    row = only_row(shared_database, "doma_panda.jobsactive4")
    assert columns_of(row, "jobstatus commandtopilot modificationtime endtime") == ("running", "tobekilled", SEEN, None)
    assert content(shared_database)[0] == "running"
    assert only_row(shared_database, "broker.job_actions")["new_status"] == "running"
    do(shared_database, LOST)
    assert archived(shared_database)["jobstatus"] == "failed"


def test_a_starting_job_gets_the_current_time_as_start_and_end(shared_database: Database) -> None:
    store(shared_database, [job(jobstatus="starting", starttime="1970-01-01", endtime="1970-01-01")], [])
    do(shared_database, replace(BACK, old_status="starting"))
    assert columns_of(archived(shared_database), "starttime endtime") == (NAIVE_NOW, NAIVE_NOW)


@pytest.mark.parametrize("columns", [{"eventservice": 1}, {"eventservice": 6}, {"specialhandling": "sj,eventservice"}])
def test_jobs_of_the_event_service_are_skipped(shared_database: Database, columns: dict[str, Any]) -> None:
    store(shared_database, [job(**columns)], [file()])
    assert do(shared_database, BACK) == ActOutcome((), (5,))
    assert content(shared_database)[0] == "running"


def test_the_fast_rebrokerage_keeps_the_substatus(shared_database: Database) -> None:
    store(shared_database, [], [], jobsdefined4=[job(jobstatus="assigned", jobsubstatus="was")])
    do(shared_database, replace(BACK, table="jobsdefined4", old_status="assigned", code=10, value_s=None))
    assert columns_of(archived(shared_database), "jobstatus jobsubstatus taskbuffererrorcode") == ("closed", "was", 130)


CHANGED = {
    "heard of since": {"modificationtime": "2026-07-30T08:00:01"},
    "another state": {"jobstatus": "running"},
    "another queue": {"computingsite": "R"},
    "another task": {"jeditaskid": 2},
}


@pytest.mark.parametrize("columns", CHANGED.values(), ids=CHANGED)
def test_a_job_that_has_changed_is_skipped(shared_database: Database, columns: dict[str, Any]) -> None:
    store(shared_database, [job(**columns)], [file()])
    assert do(shared_database, BACK) == ActOutcome((), (5,))
    assert content(shared_database)[0] == "running"
    assert all_rows(shared_database, "SELECT 1 FROM broker.job_actions") == []


def test_repeated_actions_have_no_effect(shared_database: Database) -> None:
    store(shared_database, [job(), job(6)], [file()])
    assert do(shared_database, BACK, BACK, replace(BACK, pandaid=6)).acted == (5, 6)
    before = (content(shared_database), counters(shared_database))
    assert do(shared_database, BACK) == ActOutcome((), (5,))
    assert (content(shared_database), counters(shared_database)) == before
    assert do(shared_database) == ActOutcome((), ())


def test_a_locked_job_is_skipped(shared_database: Database) -> None:
    store(shared_database, [job()], [file()])
    with shared_database.begin() as concurrent:
        concurrent.execute(sa.text("UPDATE doma_panda.jobsactive4 SET batchid = 'x' WHERE pandaid = 5"))
        assert do(shared_database, BACK).skipped == (5,)
    assert do(shared_database, BACK).acted == (5,)


def test_jobs_of_a_locked_task_are_skipped(shared_database: Database) -> None:
    store(shared_database, [job(), job(6, jeditaskid=2), job(7, jeditaskid=3)], [file()], jedi_tasks=[
        {"jeditaskid": 1, "status": "running"}, {"jeditaskid": 2, "status": "running"}
    ])  # fmt: skip
    moves = (BACK, replace(BACK, pandaid=6, jeditaskid=2), replace(BACK, pandaid=7, jeditaskid=3))
    with shared_database.begin() as concurrent:
        concurrent.execute(sa.text("SELECT 1 FROM doma_panda.jedi_tasks WHERE jeditaskid = 1 FOR NO KEY UPDATE"))
        assert do(shared_database, *moves) == ActOutcome((6, 7), (5,))
    assert do(shared_database, *moves).acted == (5,)


def test_an_archived_job_is_skipped(shared_database: Database) -> None:
    store(shared_database, [job()], [], jobsarchived4=[job(jobstatus="finished")])
    assert do(shared_database, BACK).skipped == (5,)


def test_times_tasks_and_queues_may_be_unknown(shared_database: Database) -> None:
    store(shared_database, [job(modificationtime=None, jeditaskid=None, computingsite=None)], [file()])
    assert do(
        shared_database, replace(LOST, old_status="activated", modificationtime=None, jeditaskid=None, queue=None)
    ).acted == (5,)
    assert archived(shared_database)["endtime"] == NAIVE_NOW


def test_columns_may_differ_alongside_panda_and_events_are_not_counted(database: Database) -> None:
    store(database, [job()], [file()])
    with database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE doma_panda.jobsactive4 ADD COLUMN news text"))
        connection.execute(sa.text("ALTER TABLE doma_panda.jobsarchived4 DROP COLUMN batchid"))
    assert do(database, BACK, standalone=False).acted == (5,)
    assert counters(database) == (3, 0, 2, 200)


def test_released_files_are_brokered_again(shared_database: Database) -> None:
    load(shared_database, Scenario(NOW, {}), replace=True)
    seed(shared_database, tasks=(1,), files=2)
    with shared_database.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.jedi_dataset_contents SET maxattempt = NULL WHERE fileid = 101"))
    used_counts = []
    for attempt in range(2):
        assignment = placement([(1, "Q", [100, 101])])
        assignment.files.attemptnr[:] = attempt
        with shared_database.begin() as connection:
            AssignmentWriter(Database.raw(connection), shared_database.names, NOW - timedelta(days=1)).write(assignment)
        row = only_row(shared_database, "doma_panda.jobsdefined4")
        used_counts.append(counters(shared_database)[0])
        move = replace(BACK, pandaid=row["pandaid"], table="jobsdefined4", old_status="defined")
        assert do(shared_database, replace(move, modificationtime=row["modificationtime"])).files == 2
    assert used_counts == [2, 2]
    assert counters(shared_database) == (1, 0, 0, 50)  # a secondary file stays counted once
