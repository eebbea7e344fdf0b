from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.lifecycle.model.jobs import LOST_HEARTBEAT, NOT_RECOVERED, TRANSFER_TIMEOUT
from broker.lifecycle.statements.actions import ActionContext, ActOutcome, JobAction, act
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.writes.job_rows import AssignmentWriter
from tests.store.small_work import NAIVE_NOW, NOW, all_rows, placement, seed

SEEN = datetime.fromisoformat("2026-07-30T08:00:00")
BACK = JobAction(5, "jobsactive4", "activated", SEEN, "Q", 1, "activated", "reassigned", 51, 200_000.0, 172_800.0)
LOST = JobAction(5, "jobsactive4", "running", SEEN, "Q", 1, "heartbeat", "failed", LOST_HEARTBEAT, 8000.0, 7200.0,
               error="jobdispatcher")  # fmt: skip


def job(pandaid: int = 5, **columns: Any) -> dict[str, Any]:
    plain = {
        "jobstatus": "activated",
        "computingsite": "Q",
        "jeditaskid": 1,
        "prodsourcelabel": "managed",
        "lockedby": "jedi",
    }
    times = {"modificationtime": SEEN.isoformat(), "statechangetime": SEEN.isoformat(), "creationtime": "2026-07-29"}
    return {"pandaid": pandaid} | plain | times | columns


def file(fileid: int = 100, datasetid: int = 10, pandaid: int | None = 5, **columns: Any) -> dict[str, Any]:
    plain = {"type": "input", "status": "running", "proc_status": "queued", "lfn": f"f{fileid}", "nevents": 50}
    attempts = {"attemptnr": 0, "maxattempt": 3, "failedattempt": 0, "keeptrack": 1}
    return {"jeditaskid": 1, "datasetid": datasetid, "fileid": fileid, "pandaid": pandaid} | plain | attempts | columns


def dataset(datasetid: int = 10, **columns: Any) -> dict[str, Any]:
    counters = {"nfiles": 9, "nfilestobeused": 9, "nfilesused": 4, "nfilesonhold": 2, "neventsused": 200}
    return {"jeditaskid": 1, "datasetid": datasetid, "type": "input", "datasetname": "mc:in"} | counters | columns


def store(database: Database, jobs: list[dict[str, Any]], files: list[dict[str, Any]], **tables: Any) -> None:
    rows = {"jedi_tasks": [{"jeditaskid": 1, "status": "running"}], "jedi_datasets": [dataset()]} | tables
    load(database, Scenario(NOW, {"jobsactive4": jobs, "jedi_dataset_contents": files} | rows), replace=True)


def do(database: Database, *moves: JobAction, standalone: bool = True) -> ActOutcome:
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        return act(connection, moves, ActionContext(catalogue, "timeouts", 7, NOW, standalone))


def one(database: Database, table: str, where: str = "true") -> dict[str, Any]:
    (row,) = all_rows(database, f"SELECT * FROM {table} WHERE {where}")
    return row


def archived(database: Database) -> dict[str, Any]:
    assert (
        all_rows(database, "SELECT 1 FROM doma_panda.jobsactive4 UNION ALL SELECT 1 FROM doma_panda.jobsdefined4") == []
    )
    return one(database, "doma_panda.jobsarchived4")


def columns_of(row: dict[str, Any], names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names.split())


def counters(database: Database, datasetid: int = 10) -> tuple[Any, ...]:
    row = one(database, "doma_panda.jedi_datasets", f"datasetid = {datasetid}")
    return columns_of(row, "nfilesused nfilesfailed nfilesonhold neventsused")


def content(database: Database, fileid: int = 100) -> tuple[Any, ...]:
    row = one(database, "doma_panda.jedi_dataset_contents", f"fileid = {fileid}")
    return columns_of(row, "status proc_status attemptnr failedattempt pandaid")


def test_a_job_that_is_taken_back_is_closed_and_its_input_given_back(shared: Database) -> None:
    store(shared, [job(nevents=77)], [file()])
    assert do(shared, BACK) == ActOutcome((5,), (), 1, 0)
    row = archived(shared)
    assert columns_of(row, "jobstatus jobsubstatus commandtopilot") == ("closed", "toreassign", "tobekilled")
    assert columns_of(row, "endtime modificationtime statechangetime") == (NAIVE_NOW,) * 3
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode nevents computingsite") == (100, None, 77, "Q")
    assert "rule activated, 200000 s, limit 172800 s" in row["taskbuffererrordiag"]
    assert content(shared) == ("ready", "ready", 1, 0, 5)
    assert counters(shared) == (3, 0, 2, 150)
    assert one(shared, "doma_panda.jedi_tasks")["queuedtime"] == NAIVE_NOW
    assert one(shared, "doma_panda.jobs_statuslog")["jobstatus"] == "closed"
    assert columns_of(one(shared, "broker.rebrokered_from"), "jeditaskid datasetid queue rebrokered_at") == (
        1,
        10,
        "Q",
        NOW,
    )


def test_what_was_done_is_kept_with_rule_value_and_limit(shared: Database) -> None:
    store(shared, [job()], [])
    do(shared, replace(BACK, detail={"excess": 3}))
    row = one(shared, "broker.job_actions")
    assert columns_of(row, "agent_run agent pandaid jeditaskid queue") == (7, "timeouts", 5, 1, "Q")
    assert columns_of(row, "old_status new_status rule action code") == (
        "activated",
        "closed",
        "activated",
        "reassigned",
        51,
    )
    assert columns_of(row, "value_s limit_s detail acted_at") == (200_000.0, 172_800.0, {"excess": 3}, NOW)


def test_a_lost_job_counts_as_a_failure_too(shared: Database) -> None:
    store(shared, [job(jobstatus="running", jobsubstatus="was")], [file()])
    do(shared, LOST)
    row = archived(shared)
    assert columns_of(row, "jobstatus jobsubstatus commandtopilot") == ("failed", "was", None)
    assert columns_of(row, "jobdispatchererrorcode taskbuffererrorcode endtime") == (100, None, SEEN)
    assert content(shared) == ("ready", "ready", 1, 1, 5)
    assert counters(shared) == (3, 0, 2, 150)
    assert all_rows(shared, "SELECT 1 FROM broker.rebrokered_from") == []


def test_the_two_codes_101_go_into_different_columns(shared: Database) -> None:
    store(shared, [job(jobstatus="transferring", endtime="2026-07-20")], [])
    do(shared, replace(LOST, old_status="transferring", code=TRANSFER_TIMEOUT, error="taskbuffer"))
    row = archived(shared)
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode endtime") == (
        101,
        None,
        datetime.fromisoformat("2026-07-20T00:00:00"),
    )
    store(shared, [job(jobstatus="running", taskbuffererrordiag="kept")], [])
    do(shared, replace(LOST, code=NOT_RECOVERED))
    row = archived(shared)
    assert columns_of(row, "taskbuffererrorcode jobdispatchererrorcode taskbuffererrordiag") == (None, 101, "kept")


def test_what_the_dispatcher_said_before_stays_with_its_code(shared: Database) -> None:
    new = "lost heartbeat: rule heartbeat, 8000 s, limit 7200 s"
    for code, diag, found, says in [(120, "x", 120, "x"), (None, "x", 0, "x"), (100, "", 100, new), (9, "x", 100, new)]:
        store(shared, [job(jobstatus="running", jobdispatchererrorcode=code, jobdispatchererrordiag=diag)], [])
        do(shared, replace(LOST, code=found))
        row = archived(shared)
        assert columns_of(row, "jobdispatchererrorcode jobdispatchererrordiag") == (found, says)


ATTEMPTS = [
    # attemptnr, maxattempt, failedattempt, maxfailure -> released after code 51, after a lost heartbeat
    (1, 3, 0, None, True, True),
    (2, 3, 0, None, False, False),
    (0, 3, 1, 3, True, True),
    (0, 3, 2, 3, True, False),
    (0, 3, 3, 3, False, False),
]


@pytest.mark.parametrize("move", [BACK, LOST], ids=["code 51", "lost heartbeat"])
def test_the_last_attempt_counts_as_failed(shared: Database, move: JobAction) -> None:
    for attempt, most, failed, most_failed, after_51, after_lost in ATTEMPTS:
        numbers = {"attemptnr": attempt, "maxattempt": most, "failedattempt": failed, "maxfailure": most_failed}
        store(shared, [job(jobstatus=move.old_status)], [file(**numbers)])
        again = after_51 if move is BACK else after_lost
        assert do(shared, move).files_lost == (not again), numbers
        count = failed + (move is LOST)
        assert content(shared) == ("ready", "ready" if again else "failed", attempt + 1, count, 5), numbers
        assert counters(shared) == ((3, 0, 2, 150) if again else (4, 1, 2, 200)), numbers
        assert bool(all_rows(shared, "SELECT 1 FROM broker.rebrokered_from")) == (again and move is BACK)


def test_counters_know_neither_secondary_files_nor_those_of_other_attempts(shared: Database) -> None:
    files = [
        file(100, maxattempt=None),
        file(101, keeptrack=0),
        file(102, pandaid=6),
        file(103, status="finished"),
        file(104, attemptnr=1),
        file(105, datasetid=11, type="output", status="defined"),
    ]
    records = [{"row_id": 1, "pandaid": 5, "datasetid": 10, "fileid": 104, "attemptnr": 0, "type": "input"}]
    store(shared, [job()], files, filestable4=records, jedi_datasets=[dataset(), dataset(11, type="output")])
    assert do(shared, BACK).files == 1
    assert content(shared, 100) == ("ready", "queued", 1, 0, 5)
    assert [content(shared, number)[0] for number in (101, 102, 103, 104)] == [
        "running",
        "running",
        "finished",
        "running",
    ]
    assert content(shared, 105)[:2] == ("cancelled", "queued")
    assert counters(shared) == (4, None, 2, 200)
    assert counters(shared, 11)[:2] == (4, 1)


@pytest.mark.parametrize(
    ("status", "touched"), [("running", True), ("exhausted", True), ("done", False), ("aborted", False)]
)
def test_files_of_a_task_that_has_ended_are_left_as_they_are(shared: Database, status: str, touched: bool) -> None:
    files = [file(100), file(105, datasetid=11, type="output")]
    datasets = [dataset(nfilesfailed=0), dataset(11, type="output", nfilesfailed=0)]
    store(shared, [job()], files, jedi_datasets=datasets, jedi_tasks=[{"jeditaskid": 1, "status": status}])
    assert do(shared, BACK) == ActOutcome((5,), (), int(touched), 0)
    assert archived(shared)["jobstatus"] == "closed"
    assert [content(shared, one)[0] for one in (100, 105)] == (["ready", "cancelled"] if touched else ["running"] * 2)
    assert counters(shared) == ((3, 0, 2, 150) if touched else (4, 0, 2, 200))
    assert counters(shared, 11)[1] == int(touched)


@pytest.mark.parametrize(("move", "becomes"), [(BACK, "cancelled"), (LOST, "failed")], ids=["closed", "failed"])
def test_output_ends_as_its_job_does(shared: Database, move: JobAction, becomes: str) -> None:
    files = [file(105, datasetid=11, type="output"), file(106, datasetid=11, type="log", keeptrack=0)]
    store(shared, [job(jobstatus=move.old_status)], files, jedi_datasets=[dataset(11, type="output")])
    do(shared, move)
    assert [content(shared, one)[0] for one in (105, 106)] == [becomes, "running"]
    assert counters(shared, 11)[1] == 1


def test_files_are_found_by_the_record_of_the_job_too(shared: Database) -> None:
    def record(fileid: int, attemptnr: int, kind: str = "input") -> dict[str, Any]:
        return {"row_id": fileid, "pandaid": 5, "datasetid": 10, "fileid": fileid, "attemptnr": attemptnr, "type": kind}

    files = [
        file(100, pandaid=None),
        file(101, pandaid=None),
        file(102, pandaid=6),
        file(103, pandaid=None, status="ready"),
    ]
    store(shared, [job()], files, filestable4=[record(100, 0), record(101, 1), record(102, 0), record(103, 0)])
    assert do(shared, BACK).files == 1
    assert content(shared, 100)[:3] == ("ready", "ready", 1)
    assert [content(shared, number)[:3:2] for number in (101, 102, 103)] == [
        ("running", 0),
        ("running", 0),
        ("ready", 0),
    ]
    assert counters(shared) == (3, 0, 2, 150)


@pytest.mark.parametrize(
    ("of_record", "of_file", "released"),
    [(0, 0, True), (1, 0, False), (0, 1, False), (None, 1, True), (0, None, False)],
)
def test_a_marked_file_is_the_jobs_in_the_attempt_that_its_record_tells(
    shared: Database, of_record: int | None, of_file: int | None, released: bool
) -> None:
    """Input and output alike; a record without an attempt tells nothing."""
    kinds = {100: "input", 105: "output"}
    files = [file(number, type=kind, attemptnr=of_file) for number, kind in kinds.items()]
    told = {"pandaid": 5, "datasetid": 10, "attemptnr": of_record}
    records = [{"row_id": at, "fileid": at, "type": kind, **told} for at, kind in kinds.items()]
    store(shared, [job()], files, filestable4=records)
    assert do(shared, BACK).files == released
    assert [content(shared, number)[0] for number in kinds] == (["ready", "cancelled"] if released else ["running"] * 2)


def test_output_is_found_by_the_record_of_the_job_too(shared: Database) -> None:
    """Marked with none and in the attempt of the record; what another job has, or another attempt, stays."""
    marks: list[tuple[int, int | None, int]] = [(105, None, 0), (106, None, 1), (107, 6, 0)]
    files = [file(number, pandaid=mark, type="output", attemptnr=attempt) for number, mark, attempt in marks]
    told = {"pandaid": 5, "datasetid": 10, "attemptnr": 0, "type": "output"}
    store(shared, [job()], files, filestable4=[{"row_id": at, "fileid": at, **told} for at, _, _ in marks])
    do(shared, BACK)
    assert [content(shared, number)[0] for number, _, _ in marks] == ["cancelled", "running", "running"]


def test_transferring_jobs_give_back_what_is_on_hold_and_their_output_is_failed(shared: Database) -> None:
    record = {"row_id": 1, "pandaid": 5, "datasetid": 11, "fileid": 105, "type": "output", "status": "transferring"}
    store(shared, [job(jobstatus="transferring")], [file()], filestable4=[record])
    do(shared, replace(LOST, old_status="transferring", error="taskbuffer", code=TRANSFER_TIMEOUT))
    assert counters(shared) == (3, 0, 1, 150)
    assert one(shared, "doma_panda.filestable4")["status"] == "failed"


def test_a_running_job_that_is_killed_is_only_told(shared: Database) -> None:
    store(shared, [job(jobstatus="running")], [file()])
    told = JobAction(5, "jobsactive4", "running", SEEN, "Q", 1, "running", "killed", 2, 2e6, 1814400.0)
    assert do(shared, told) == ActOutcome((5,), ())
    row = one(shared, "doma_panda.jobsactive4")
    assert columns_of(row, "jobstatus commandtopilot modificationtime endtime") == ("running", "tobekilled", SEEN, None)
    assert content(shared)[0] == "running"
    assert one(shared, "broker.job_actions")["new_status"] == "running"
    do(shared, LOST)
    assert archived(shared)["jobstatus"] == "failed"


def test_a_starting_job_never_ran(shared: Database) -> None:
    store(shared, [job(jobstatus="starting", starttime="1970-01-01", endtime="1970-01-01")], [])
    do(shared, replace(BACK, old_status="starting"))
    assert columns_of(archived(shared), "starttime endtime") == (NAIVE_NOW, NAIVE_NOW)


@pytest.mark.parametrize("columns", [{"eventservice": 1}, {"eventservice": 6}, {"specialhandling": "sj,eventservice"}])
def test_jobs_of_the_event_service_are_left_alone(shared: Database, columns: dict[str, Any]) -> None:
    store(shared, [job(**columns)], [file()])
    assert do(shared, BACK) == ActOutcome((), (5,))
    assert content(shared)[0] == "running"


def test_the_fast_rebrokerage_leaves_the_substatus(shared: Database) -> None:
    store(shared, [], [], jobsdefined4=[job(jobstatus="assigned", jobsubstatus="was")])
    do(shared, replace(BACK, table="jobsdefined4", old_status="assigned", code=10, value_s=None))
    assert columns_of(archived(shared), "jobstatus jobsubstatus taskbuffererrorcode") == ("closed", "was", 130)


CHANGED = {
    "heard of since": {"modificationtime": "2026-07-30T08:00:01"},
    "another state": {"jobstatus": "running"},
    "another queue": {"computingsite": "R"},
    "another task": {"jeditaskid": 2},
}


@pytest.mark.parametrize("columns", CHANGED.values(), ids=CHANGED)
def test_a_job_that_has_moved_on_is_left_alone(shared: Database, columns: dict[str, Any]) -> None:
    store(shared, [job(**columns)], [file()])
    assert do(shared, BACK) == ActOutcome((), (5,))
    assert content(shared)[0] == "running"
    assert all_rows(shared, "SELECT 1 FROM broker.job_actions") == []


def test_a_second_time_nothing_happens(shared: Database) -> None:
    store(shared, [job(), job(6)], [file()])
    assert do(shared, BACK, BACK, replace(BACK, pandaid=6)).acted == (5, 6)
    before = (content(shared), counters(shared))
    assert do(shared, BACK) == ActOutcome((), (5,))
    assert (content(shared), counters(shared)) == before
    assert do(shared) == ActOutcome((), ())


def test_a_job_that_somebody_writes_to_is_left_alone(shared: Database) -> None:
    store(shared, [job()], [file()])
    with shared.begin() as other:
        other.execute(sa.text("UPDATE doma_panda.jobsactive4 SET batchid = 'x' WHERE pandaid = 5"))
        assert do(shared, BACK).skipped == (5,)
    assert do(shared, BACK).acted == (5,)


def test_jobs_of_a_task_that_somebody_has_locked_are_left_alone(shared: Database) -> None:
    store(shared, [job(), job(6, jeditaskid=2), job(7, jeditaskid=3)], [file()], jedi_tasks=[
        {"jeditaskid": 1, "status": "running"}, {"jeditaskid": 2, "status": "running"}
    ])  # fmt: skip
    moves = (BACK, replace(BACK, pandaid=6, jeditaskid=2), replace(BACK, pandaid=7, jeditaskid=3))
    with shared.begin() as other:
        other.execute(sa.text("SELECT 1 FROM doma_panda.jedi_tasks WHERE jeditaskid = 1 FOR NO KEY UPDATE"))
        assert do(shared, *moves) == ActOutcome((6, 7), (5,))
    assert do(shared, *moves).acted == (5,)


def test_a_job_that_is_archived_already_is_left_alone(shared: Database) -> None:
    store(shared, [job()], [], jobsarchived4=[job(jobstatus="finished")])
    assert do(shared, BACK).skipped == (5,)


def test_unknown_times_tasks_and_queues(shared: Database) -> None:
    store(shared, [job(modificationtime=None, jeditaskid=None, computingsite=None)], [file()])
    assert do(
        shared, replace(LOST, old_status="activated", modificationtime=None, jeditaskid=None, queue=None)
    ).acted == (5,)
    assert archived(shared)["endtime"] == NAIVE_NOW


def test_beside_panda_columns_may_differ_and_events_are_not_ours(database: Database) -> None:
    store(database, [job()], [file()])
    with database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE doma_panda.jobsactive4 ADD COLUMN news text"))
        connection.execute(sa.text("ALTER TABLE doma_panda.jobsarchived4 DROP COLUMN batchid"))
    assert do(database, BACK, standalone=False).acted == (5,)
    assert counters(database) == (3, 0, 2, 200)


def test_what_was_given_back_is_brokered_like_any_other(shared: Database) -> None:
    load(shared, Scenario(NOW, {}), replace=True)
    seed(shared, tasks=(1,), files=2)
    with shared.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.jedi_dataset_contents SET maxattempt = NULL WHERE fileid = 101"))
    used = []
    for attempt in range(2):
        placed = placement([(1, "Q", [100, 101])])
        placed.files.attemptnr[:] = attempt
        with shared.begin() as connection:
            AssignmentWriter(Database.raw(connection), shared.names, NOW - timedelta(days=1)).write(placed)
        row = one(shared, "doma_panda.jobsdefined4")
        used.append(counters(shared)[0])
        move = replace(BACK, pandaid=row["pandaid"], table="jobsdefined4", old_status="defined")
        assert do(shared, replace(move, modificationtime=row["modificationtime"])).files == 2
    assert used == [2, 2]
    assert counters(shared) == (1, 0, 0, 50)  # a secondary file stays counted, once
