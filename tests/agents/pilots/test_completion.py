from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from agents.service import fault_points
from broker.lifecycle.statements.actions import ActionContext
from broker.lifecycle.statements.finishing import finish, read_reported
from broker.pilots.model.job_outcome import job_end
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.pilots.panda.pilot_grid import NOW, content, dataset, fill, job, record, row, rows, run_agent, task

STAMP = "2026-08-01T11:00:00"
WRITTEN = {"out": {"guid": "g", "fsize": 12, "adler32": "0a"}, "a.log": {"guid": "h", "fsize": 7, "adler32": "0b"}}


def report(pandaid: int, state: str = "finished", data: Any = None, attemptnr: int = 0) -> dict[str, Any]:
    text = "" if data is None else data if isinstance(data, str) else json.dumps(data)
    return {"pandaid": pandaid, "attemptnr": attemptnr, "jobstatus": state, "timestamp": STAMP, "data": text}


def held(pandaid: int, **columns: Any) -> dict[str, Any]:
    return job(pandaid, "holding", starttime="2026-08-01T10:30:00", endtime=STAMP, **columns)


def one_job(database: Database, output_report: dict[str, Any], *, outputs: bool = True, **columns: Any) -> None:
    """Store job 5 of a task of two files, with its input, an output and a log."""
    output_records = [
        record(5, 2, 11, lfn="out", type="output", attemptnr=None),
        record(5, 3, 12, lfn="a.log", type="log", attemptnr=None),
    ]
    output_contents = [
        content(2, 5, 11, lfn="out", type="output", status="defined", attemptnr=None, maxattempt=None),
        content(3, 5, 12, lfn="a.log", type="log", status="defined", attemptnr=None, maxattempt=None),
    ]
    fill(
        database,
        [held(5, **columns)],
        jedi_datasets=[dataset(), dataset(11, "output", nfiles=1), dataset(12, "log", nfiles=1)],
        jedi_dataset_contents=[content(1, 5), content(4)] + (output_contents if outputs else []),
        filestable4=[record(5, 1)] + (output_records if outputs else []),
        job_output_report=[output_report],
    )


def files(database: Database) -> dict[str, str]:
    return dict(rows(database, "SELECT lfn, status FROM doma_panda.jedi_dataset_contents"))  # type: ignore[arg-type]


def counters(database: Database, datasetid: int = 10) -> dict[str, Any]:
    return row(database, f"SELECT * FROM doma_panda.jedi_datasets WHERE datasetid = {datasetid}")


def test_a_finished_job_is_archived_with_its_files_and_counters(shared_database: Database) -> None:
    one_job(shared_database, report(5, data=WRITTEN))
    record_, objects = run_agent(shared_database, "completion")
    assert record_.outcome == "done", record_.error
    assert objects == [
        {"pandaid": 5, "jeditaskid": 1, "queue": "Q", "jobstatus": "finished", "reason": "reported", "code": 0}
    ]
    archived = row(shared_database, "SELECT * FROM doma_panda.jobsarchived4")
    assert (archived["jobstatus"], archived["endtime"].hour, archived["modificationtime"].hour) == ("finished", 11, 12)
    assert rows(shared_database, "SELECT FROM doma_panda.jobsactive4") == []
    assert rows(shared_database, "SELECT pandaid, jobstatus FROM doma_panda.jobs_statuslog") == [(5, "finished")]
    assert files(shared_database) == {"file1": "finished", "file4": "ready", "out": "finished", "a.log": "finished"}
    about = "SELECT guid, fsize, checksum FROM doma_panda.{} WHERE lfn = 'out'"
    for table in ("jedi_dataset_contents", "filestable4"):
        assert rows(shared_database, about.format(table)) == [("g", 12, "ad:0a")]
    counts = counters(shared_database)
    assert (counts["nfilesused"], counts["nfilesfinished"], counts["nfilesfailed"]) == (1, 1, 0)
    assert [counters(shared_database, dataset_id)["nfilesfinished"] for dataset_id in (11, 12)] == [1, 1]
    assert rows(shared_database, "SELECT FROM doma_panda.job_output_report") == []
    assert row(shared_database, "SELECT status FROM doma_panda.jedi_tasks")["status"] == "running"
    second, objects = run_agent(shared_database, "completion")
    assert (second.outcome, objects, counters(shared_database)["nfilesfinished"]) == ("done", [], 1)


def test_a_failed_job_gives_its_input_back_for_another_queue(shared_database: Database) -> None:
    one_job(shared_database, report(5, "failed", {"a.log": WRITTEN["a.log"]}), piloterrorcode=1305, transexitcode="3")
    _, objects = run_agent(shared_database, "completion")
    assert [(item["jobstatus"], item["code"]) for item in objects] == [("failed", 1305)]
    archived = row(shared_database, "SELECT * FROM doma_panda.jobsarchived4")
    assert (archived["jobstatus"], archived["piloterrorcode"], archived["transexitcode"]) == ("failed", 1305, "3")
    assert (archived["jobdispatchererrorcode"] or 0, archived["taskbuffererrorcode"] or 0) == (0, 0)
    assert files(shared_database) == {"file1": "ready", "file4": "ready", "out": "failed", "a.log": "finished"}
    file = row(shared_database, "SELECT * FROM doma_panda.jedi_dataset_contents WHERE fileid = 1")
    assert (file["attemptnr"], file["failedattempt"], file["pandaid"]) == (1, 1, 5)
    counts = counters(shared_database)
    assert (counts["nfilesused"], counts["nfilesfinished"], counts["nfilesfailed"]) == (0, 0, 0)
    assert [counters(shared_database, dataset_id)["nfilesfinished"] for dataset_id in (11, 12)] == [0, 1]
    assert rows(shared_database, "SELECT jeditaskid, datasetid, queue FROM broker.rebrokered_from") == [(1, 10, "Q")]
    action = row(shared_database, "SELECT * FROM broker.job_actions")
    assert (action["rule"], action["action"], action["code"]) == ("final_report", "failed", 1305)


@pytest.mark.parametrize(("attempts", "lost"), [(3, 0), (1, 1)])
def test_attempts_are_limited(shared_database: Database, attempts: int, lost: int) -> None:
    fill(
        shared_database,
        [held(5)],
        jedi_datasets=[dataset()],
        jedi_dataset_contents=[content(1, 5, maxattempt=attempts)],
        filestable4=[record(5, 1)],
        job_output_report=[report(5, "failed")],
    )
    run_agent(shared_database, "completion")
    assert counters(shared_database)["nfilesfailed"] == lost
    assert len(rows(shared_database, "SELECT FROM broker.rebrokered_from")) == 1 - lost


@pytest.mark.parametrize("data", ["{}", "<xml/>", {"out": {}}])
def test_a_job_without_its_output_fails(shared_database: Database, data: Any) -> None:
    one_job(shared_database, report(5, data=data))
    run_agent(shared_database, "completion")
    archived = row(shared_database, "SELECT * FROM doma_panda.jobsarchived4")
    assert (archived["jobstatus"], archived["ddmerrorcode"]) == ("failed", 200)
    assert files(shared_database)["file1"] == "ready"


def test_a_job_without_a_report_of_its_attempt_waits(shared_database: Database) -> None:
    one_job(shared_database, report(5, data=WRITTEN, attemptnr=1))
    _, objects = run_agent(shared_database, "completion")
    assert objects == []
    assert rows(shared_database, "SELECT jobstatus FROM doma_panda.jobsactive4") == [("holding",)]


NOT_HOLDING = ("sent", "running", "transferring", "merging", "cancelled")


@pytest.mark.parametrize("status", NOT_HOLDING)
def test_a_job_that_is_not_holding_is_not_looked_at(shared_database: Database, status: str) -> None:
    one_job(shared_database, report(5, data=WRITTEN))
    with shared_database.begin() as connection:
        connection.exec_driver_sql(f"UPDATE doma_panda.jobsactive4 SET jobstatus = '{status}'")
    run_record, objects = run_agent(shared_database, "completion")
    assert (run_record.outcome, objects, run_record.counts["skipped"]) == ("done", [], 0)
    assert rows(shared_database, "SELECT jobstatus FROM doma_panda.jobsactive4") == [(status,)]


@pytest.mark.parametrize("status", NOT_HOLDING)
@pytest.mark.parametrize("data", [WRITTEN, {}], ids=["finished", "failed"])
def test_a_job_that_is_no_longer_holding_when_it_is_ended_is_skipped(
    shared_database: Database, data: Any, status: str
) -> None:
    """The status changes after the job was read: the job keeps its row, and nothing is counted."""
    one_job(shared_database, report(5, data=data))
    tables = ("jobsactive4", "jobsarchived4", "jedi_datasets", "jedi_dataset_contents", "filestable4")
    with shared_database.begin() as connection:
        catalogue = TableCatalogue.read(connection, shared_database.names)
        [reported_job] = read_reported(connection, shared_database.names, 10)
        connection.exec_driver_sql(f"UPDATE doma_panda.jobsactive4 SET jobstatus = '{status}'")
    before = {
        table: rows(shared_database, f"SELECT t::text FROM doma_panda.{table} AS t ORDER BY 1") for table in tables
    }
    with shared_database.begin() as connection:
        context = ActionContext(catalogue, "completion", None, NOW, standalone=True)
        outcome = finish(connection, [(reported_job, job_end(reported_job.report, reported_job.files))], context)
    assert (outcome.acted, outcome.skipped) == ((), (5,))
    for table in tables:
        assert rows(shared_database, f"SELECT t::text FROM doma_panda.{table} AS t ORDER BY 1") == before[table], table
    assert rows(shared_database, "SELECT pandaid FROM doma_panda.job_output_report") == [(5,)]


def test_a_dry_run_writes_nothing(shared_database: Database) -> None:
    one_job(shared_database, report(5, data=WRITTEN))
    _, objects = run_agent(shared_database, "completion", dry=True)
    assert [item["jobstatus"] for item in objects] == ["finished"]
    assert rows(shared_database, "SELECT jobstatus FROM doma_panda.jobsactive4") == [("holding",)]
    assert len(rows(shared_database, "SELECT FROM doma_panda.job_output_report")) == 1


def test_a_fault_before_the_commit_leaves_everything(shared_database: Database) -> None:
    one_job(shared_database, report(5, data=WRITTEN))
    fault_points.arm({"BROKER_FAULT": "after_write_before_commit:raise"})
    failed, _ = run_agent(shared_database, "completion")
    assert failed.outcome != "done"
    assert rows(shared_database, "SELECT jobstatus FROM doma_panda.jobsactive4") == [("holding",)]
    fault_points.disarm()
    run_agent(shared_database, "completion")
    assert counters(shared_database)["nfilesfinished"] == 1


def test_batches_follow_one_another_and_jobs_of_locked_tasks_wait(shared_database: Database) -> None:
    numbers = range(101, 106)
    fill(
        shared_database,
        [held(number, jeditaskid=2 if number == 103 else 1) for number in numbers],
        jedi_tasks=[task(), task(2)],
        jedi_datasets=[dataset(nfiles=5, nfilestobeused=5), dataset(20, jeditaskid=2)],
        jedi_dataset_contents=[content(number, number) for number in numbers if number != 103],
        filestable4=[record(number, number) for number in numbers if number != 103],
        job_output_report=[report(number) for number in numbers],
    )
    with shared_database.begin() as connection:
        connection.exec_driver_sql("SELECT FROM doma_panda.jedi_tasks WHERE jeditaskid = 2 FOR UPDATE")
        run_record, objects = run_agent(shared_database, "completion", options={"jobs_of_a_batch": 2})
        assert (run_record.outcome, run_record.counts["skipped"]) == ("done", 1)
    assert sorted(item["pandaid"] for item in objects) == [101, 102, 104, 105]
    _, objects = run_agent(shared_database, "completion")
    assert [item["pandaid"] for item in objects] == [103]


@pytest.mark.parametrize(
    ("finished", "failed", "live", "before", "after"),
    [
        (2, 0, False, "running", "done"),
        (1, 1, False, "running", "finished"),
        (0, 2, False, "running", "failed"),
        (1, 0, False, "running", "running"),
        (2, 0, True, "running", "running"),
        (2, 0, False, "paused", "paused"),
        (2, 0, False, "pending", "done"),
        (1, 0, False, "scouting", "running"),
        (1, 0, True, "scouting", "scouting"),
        (0, 1, False, "scouting", "scouting"),
    ],
)
def test_tasks_end_with_their_input(
    shared_database: Database, finished: int, failed: int, live: bool, before: str, after: str
) -> None:
    fill(
        shared_database,
        [job(9, "running")] if live else [],
        jedi_tasks=[task(status=before, splitrule="US=2,NF=1")],
        jedi_datasets=[
            dataset(nfilesfinished=finished, nfilesfailed=failed),
            dataset(13, masterid=10, nfilesfinished=0),
            dataset(11, "output", nfiles=1, state="open"),
        ],
    )
    _, objects = run_agent(shared_database, "completion")
    task_row = row(shared_database, "SELECT * FROM doma_panda.jedi_tasks")
    assert task_row["status"] == after
    is_over = after in ("done", "finished", "failed")
    assert (task_row["endtime"] is not None) == is_over
    assert (counters(shared_database, 11)["state"] == "closed") == is_over
    assert task_row["splitrule"] == ("US=3,NF=1" if (before, after) == ("scouting", "running") else "US=2,NF=1")
    assert len(objects) == (before != after)
    assert len(rows(shared_database, "SELECT FROM doma_panda.tasks_statuslog")) == (before != after)


def test_the_agent_is_off_alongside_panda(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.installation SET mode = 'beside'")
    record_, _ = run_agent(database, "completion")
    assert record_.notes == ("PanDA takes the reports of its pilots to their end itself",)


def test_requests_of_pilots_are_counted_by_queue(shared_database: Database) -> None:
    fill(
        shared_database,
        [],
        sitedata=[{"site": "R", "flag": "production", "hours": 3, "getjob": 4, "lastmod": "2026-08-01T08:00:00"},
                  {"site": "OLD", "flag": "production", "hours": 3, "getjob": 4, "lastmod": "2026-07-30T08:00:00"}],
    )  # fmt: skip
    with shared_database.begin() as connection:
        for minutes, queue, method, node, requests in (
            (10, "Q", "getjob", "a", 2), (10, "Q", "getjob", "b", 1), (90, "Q", "getjob", "c", 5),
            (10, "Q", "nojob", "a", 1), (10, "Q", "updatejob", "a", 7), (200, "Q", "getjob", "d", 1),
            (10, "NOWHERE", "getjob", "a", 1),
        ):  # fmt: skip
            connection.exec_driver_sql(
                "INSERT INTO broker.pilot_requests VALUES (%s, %s, %s, %s, %s)",
                (queue, method, node, NOW - timedelta(minutes=minutes), requests),
            )
    record_, _ = run_agent(shared_database, "pilot_activity")
    assert record_.outcome == "done", record_.error
    counts = rows(
        shared_database,
        "SELECT site, hours, getjob, updatejob, nojob, getjobabs, updatejobabs, nojobabs FROM doma_pandameta.sitedata"
        " ORDER BY 1, 2",
    )
    assert counts == [("Q", 1, 2, 1, 1, 3, 7, 1), ("Q", 3, 3, 1, 1, 8, 7, 1), ("R", 3, 0, 0, 0, 0, 0, 0)]
    assert rows(shared_database, "SELECT FROM broker.pilot_requests WHERE node = 'd'") == []
