from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker.pilots.answers.jobs import update
from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_transition import transition
from broker.pilots.routes.panda.service import MOST_REPORTS
from broker.pilots.statements.job_reports import read_state, write_transition
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import AGENT, NOW, call, content, dataset, fill, job, post, record, row, rows

OK = {"StatusCode": 0, "command": "NULL"}


def state(database: Database) -> dict[str, Any]:
    return row(database, "SELECT * FROM doma_panda.jobsactive4 WHERE pandaid = 5")


def report(client: Client, state: str, **fields: Any) -> Any:
    return post(client, "updateJob", jobId="5", attemptNr="0", state=state, siteName="Q", **fields)


def test_the_life_of_a_job(shared_database: Database, client: Client) -> None:
    fill(
        shared_database,
        [job(5, "sent")],
        jedi_datasets=[dataset()],
        jedi_dataset_contents=[content(1, 5)],
        filestable4=[record(5, 1)],
        sitedata=[{"site": "Q", "flag": "production", "hours": 3, "lastmod": "2026-08-01T11:00:00"}],
    )
    assert report(client, "starting", node="n1", pilotID="id|t|3.7.0.36") == OK
    assert (state(shared_database)["jobstatus"], state(shared_database)["pilotid"]) == ("starting", "id|t|3.7.0.36")
    assert report(client, "running", startTime="1700000000", cpuConsumptionTime="3", totRBYTES="4096") == OK
    job_row = state(shared_database)
    assert (job_row["jobstatus"], job_row["cpuconsumptiontime"], job_row["totrbytes"]) == ("running", 3, 4)
    assert job_row["starttime"] is not None
    assert rows(shared_database, "SELECT proc_status FROM doma_panda.jedi_dataset_contents") == [("running",)]
    assert row(shared_database, "SELECT laststart FROM doma_pandameta.sitedata")["laststart"] == job_row["starttime"]
    xml = json.dumps({"a.log": {"guid": "g", "fsize": 1, "adler32": "01"}})
    assert report(client, "finished", xml=xml, pilotTiming="1|2|3|4|5|6", endTime="1700000001", pilotLog="end") == OK
    job_row = state(shared_database)
    assert (job_row["jobstatus"], job_row["pilottiming"]) == ("holding", "1|2|3|4|5|6")
    assert job_row["endtime"] is not None
    output_report = row(shared_database, "SELECT * FROM doma_panda.job_output_report")
    assert (
        output_report["pandaid"],
        output_report["attemptnr"],
        output_report["jobstatus"],
        output_report["data"],
    ) == (5, 0, "finished", xml)
    assert rows(shared_database, "SELECT text FROM broker.pilot_logs") == [("end",)]
    log = rows(shared_database, "SELECT jobstatus FROM doma_panda.jobs_statuslog ORDER BY modificationtime")
    assert log == [("starting",), ("running",), ("holding",)]
    before = state(shared_database)
    assert report(client, "finished", xml="{}")["command"] == "alreadydone"
    assert report(client, "running")["command"] == "alreadydone"
    assert state(shared_database) == before


@pytest.mark.parametrize(
    ("jobs", "fields", "command"),
    [
        ([], {}, "tobekilled"),
        ([job(5, "running", attemptnr=1)], {}, "tobekilled"),
        ([job(5, "closed")], {}, "tobekilled"),
        ([job(5, "defined")], {}, "tobekilled"),
        ([job(5, "finished")], {}, "alreadydone"),
        ([job(5, "failed")], {}, "alreadydone"),
        ([job(5, "running", commandtopilot="tobekilled")], {}, "tobekilled"),
        ([job(5, "running", specialhandling="debug")], {}, "debug"),
        ([job(5, "running", batchid="a.1")], {"batchID": "a.2"}, "tobekilled"),
        ([job(5, "running", batchid="a.1")], {"batchID": "a.1"}, "NULL"),
    ],
)
def test_which_command_the_pilot_gets(
    shared_database: Database, client: Client, jobs: list[dict[str, Any]], fields: dict[str, str], command: str
) -> None:
    fill(shared_database, jobs)
    assert report(client, "running", **fields) == {"StatusCode": 0, "command": command}


def test_a_changed_batch_id_is_noted(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "running", batchid="a.1")])
    report(client, "running", batchID="a.2")
    job_row = state(shared_database)
    assert (job_row["superrorcode"], job_row["batchid"], job_row["superrordiag"]) == (
        1,
        "a.1",
        "the batch id was a.1 and is a.2",
    )


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"jobId": "5", "state": "flying"}, OK),
        ({"jobId": "x", "state": "running"}, {"StatusCode": 50, "errorDialog": "jobId is missing or no value"}),
        ({"jobId": "5"}, {"StatusCode": 50, "errorDialog": "state is missing or no value"}),
    ],
)
def test_an_incomplete_report_changes_nothing(
    shared_database: Database, client: Client, fields: dict[str, str], answer: dict[str, Any]
) -> None:
    fill(shared_database, [job(5, "running")])
    before = state(shared_database)
    assert post(client, "updateJob", **fields) == answer
    assert state(shared_database) == before


def test_hostile_texts_are_stored_as_texts(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "running")])
    diag = "'; DROP TABLE doma_panda.jobsactive4; --\0\n\u202e" + "x" * 10_000
    assert report(client, "failed", pilotErrorDiag=diag, jobMetrics="%s %(now)s :pandaid") == OK
    job_row = state(shared_database)
    assert (len(job_row["piloterrordiag"]), job_row["jobmetrics"]) == (500, "%s %(now)s :pandaid")


def test_compressed_json_is_also_read(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "running")])
    body = gzip.compress(json.dumps({"jobId": 5, "attemptNr": 0, "state": "running", "coreCount": 8}).encode())
    headers = {**AGENT, "content-type": "application/json", "content-encoding": "gzip"}
    assert client.post("/server/panda/updateJob", content=body, headers=headers).json() == OK
    assert state(shared_database)["actualcorecount"] == 8


def test_a_compressed_bomb_is_refused(client: Client) -> None:
    body = gzip.compress(b" " * (50 * 2**20))
    headers = {**AGENT, "content-type": "application/json", "content-encoding": "gzip"}
    assert client.post("/server/panda/updateJob", content=body, headers=headers).status_code == 413


WAITS_FOR_LOCK = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database() AND application_name = 'second report'"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("finished", "running", ("already_done", "alreadydone")),
        ("finished", "failed", ("already_done", "alreadydone")),
        ("holding", "running", ("late", None)),
        ("running", "starting", ("reported", None)),
    ],
)
def test_two_concurrent_reports_of_a_job_are_applied_in_sequence(
    shared_database: Database, first: str, second: str, expected: tuple[str, str | None]
) -> None:
    """The second report is judged by the state after the first, and overwrites none of its values."""
    fill(shared_database, [job(5, "sent")])
    reports = [
        JobReport(5, state, 0, "Q", {"pilottiming": state, "modificationhost": "node"}) for state in (first, second)
    ]
    with shared_database.sibling("second report", 1) as sibling, ThreadPoolExecutor(1) as threads:
        with shared_database.begin() as connection:
            before_change = read_state(connection, shared_database.names, 5)
            change = transition(before_change, reports[0], NOW.replace(tzinfo=None))
            write_transition(connection, shared_database.names, reports[0], change, NOW)
            second_update = threads.submit(update, sibling, reports[1], lambda queue: True)
            while not second_update.done() and rows(shared_database, WAITS_FOR_LOCK) == [(0,)]:
                pass
            assert not second_update.done()
        answer = second_update.result()
    assert (answer.reason, answer.command) == expected
    last_state = second if answer.is_applied else first
    after = state(shared_database)
    assert (after["jobstatus"], after["pilottiming"]) == (change.status, last_state)
    log = rows(shared_database, "SELECT jobstatus FROM doma_panda.jobs_statuslog ORDER BY modificationtime")
    assert log == [(change.status,)]


def test_reports_in_bulk(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "sent"), job(6, "sent")])
    jobs = [{"jobId": pandaid, "attemptNr": 0, "state": "running"} for pandaid in (5, 6, 7)]
    answer = post(client, "updateJobsInBulk", jobList=json.dumps(jobs), harvester_id="h")
    assert answer == [True, [OK, OK, {"StatusCode": 0, "command": "tobekilled"}]]
    assert post(client, "updateJobsInBulk", jobList="{") == [False, "jobList is no list of objects"]
    response = call(
        client, "pilot/update_jobs_bulk",
        job_list=[{"job_id": 5, "job_status": "finished"}, {"job_id": 6, "job_status": "running", "x": 1}],
    )  # fmt: skip
    assert [result["success"] for result in response["data"]] == [True, False]


@pytest.mark.parametrize(("reports", "is_accepted"), [(MOST_REPORTS, True), (MOST_REPORTS + 1, False)])
def test_reports_in_bulk_have_a_limit(
    shared_database: Database, client: Client, reports: int, is_accepted: bool
) -> None:
    legacy = [{"jobId": 5, "state": "of no kind"}] * reports
    answer = post(client, "updateJobsInBulk", jobList=json.dumps(legacy))
    assert answer[0] is is_accepted and (is_accepted or f"more than {MOST_REPORTS}" in answer[1])
    response = call(client, "pilot/update_jobs_bulk", job_list=[{"job_id": 5, "job_status": "of no kind"}] * reports)
    assert response["success"] is is_accepted and (is_accepted or f"more than {MOST_REPORTS}" in response["message"])


def test_status_of_jobs(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "running", attemptnr=2), job(6, "finished")])
    answer = post(client, "getStatus", ids="5,6,7,x")
    assert answer == {"StatusCode": 0, "status": "running,finished,notfound,notfound", "attemptNr": "2,0,0,0"}
    response = client.get("/api/v1/pilot/get_job_status", params={"job_ids": [5, 7]}).json()
    assert response["data"] == [
        {"job_id": 5, "status": "running", "attempt_number": 2},
        {"job_id": 7, "status": "not found", "attempt_number": 0},
    ]
    assert client.get("/api/v1/pilot/get_job_status", params={"job_ids": "x"}).json()["success"] is False


def test_the_newer_interface(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "sent")])
    response = call(client, "pilot/update_job", job_id=5, job_status="running", attempt_nr=0, max_rss=10.5)
    assert response == {"success": True, "message": "", "data": {"StatusCode": 0, "command": None}}
    response = call(client, "pilot/update_job", job_id=5, job_status="flying")
    assert (response["success"], response["data"]) == (False, {"StatusCode": 50})


@pytest.mark.parametrize(
    "values",
    [
        {"job_id": "5", "job_status": "running"},
        {"job_id": True, "job_status": "running"},
        {"job_id": 5},
        {"job_id": 5, "job_status": "running", "surprise": 1},
        {"job_id": 5, "job_status": "running", "node": 7},
        {"job_id": 5, "job_status": "running", "max_rss": "much"},
    ],
)
def test_types_are_enforced(shared_database: Database, client: Client, values: dict[str, Any]) -> None:
    response = call(client, "pilot/update_job", **values)
    assert (response["success"], response["message"].startswith("Argument error: ")) == (False, True)


def test_the_end_of_the_output_is_stored_in_debug_mode(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5, "running", specialhandling="debug")])
    report(client, "running", stdout="x" * 3000 + "end", metaData="<meta/>")
    (stdout,) = rows(shared_database, "SELECT stdout FROM doma_panda.jobsdebug")[0]
    assert (len(stdout), stdout[-3:]) == (2048, "end")
    assert rows(shared_database, "SELECT metadata FROM doma_panda.metatable") == [("<meta/>",)]
