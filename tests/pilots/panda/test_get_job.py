from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import pytest
import sqlalchemy as sa

from broker.matching.specs.spec import Bounds, GpuNeed, JobSpecs, Memory, Spec
from broker.pilots.routes.panda.service import AVOIDED
from broker.pools.statements.pool_registration import TaskRequirements, attach
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import (
    NOW,
    QUEUES,
    call,
    content,
    dataset,
    fill,
    follow,
    job,
    post,
    queue,
    record,
    row,
    rows,
)

PILOT = {"siteName": "Q", "prodSourceLabel": "managed", "mem": "4000.0", "diskSpace": "20000", "node": "n1",
         "computingElement": "CE"}  # fmt: skip
NOTHING = {"StatusCode": 20, "errorDialog": "no jobs in PanDA"}


def test_a_pilot_gets_a_job_with_its_files(shared_database: Database, client: Client) -> None:
    fill(
        shared_database,
        [job(5, minramcount=4000)],
        jedi_taskparams=[{"jeditaskid": 1, "taskparams": '{"arguments": "-i ${IN} -o ${OUTPUT0}"}'}],
        jedi_datasets=[dataset(), dataset(11, "output"), dataset(12, "log")],
        jedi_dataset_contents=[content(1, 5)],
        filestable4=[
            record(5, 1),
            record(5, 2, 11, lfn="out", type="output", attemptnr=None),
            record(5, 3, 12, lfn="a.log", type="log", attemptnr=None),
        ],
        panda_ddm_relation=[
            {"panda_site_name": "Q", "ddm_endpoint_name": "DISK", "roles": "read_lan,write_lan", "scope": "default",
             "default_read": "Y", "default_write": "Y"},
        ],
    )  # fmt: skip
    answer = post(client, "getJob", **PILOT)
    expected = {"StatusCode": 0, "PandaID": 5, "taskID": 1, "jobPars": "-i file1 -o out", "inFiles": "file1",
              "scopeIn": "s", "outFiles": "out,a.log", "logFile": "a.log",
              "ddmEndPointIn": "DISK", "ddmEndPointOut": "DISK,DISK",
              "scopeOut": "s", "scopeLog": "s"}  # fmt: skip
    assert {name: answer[name] for name in expected} == expected
    job_row = row(shared_database, "SELECT * FROM doma_panda.jobsactive4")
    assert (job_row["jobstatus"], job_row["modificationhost"], job_row["computingelement"]) == ("sent", "n1", "CE")
    assert job_row["starttime"] == job_row["modificationtime"] is not None
    assert job_row["jobexecutionid"] == 0
    assert rows(shared_database, "SELECT pandaid, jobstatus FROM doma_panda.jobs_statuslog") == [(5, "sent")]
    assert post(client, "getJob", **PILOT) == NOTHING


@pytest.mark.parametrize(
    ("columns", "fields", "gets"),
    [
        ({"minramcount": 4000}, {}, True),
        ({"minramcount": 4001}, {}, False),
        ({"minramcount": 4001}, {"mem": "0"}, True),
        ({"maxdiskcount": 20001}, {}, False),
        ({"maxdiskcount": 20000}, {}, True),
        ({"maxwalltime": 3601}, {"remaining_time": "3600"}, False),
        ({"maxwalltime": 3600}, {"remaining_time": "3600"}, True),
        ({"maxwalltime": None}, {"remaining_time": "60"}, True),
        ({"prodsourcelabel": "user"}, {}, False),
        ({"prodsourcelabel": "user"}, {"prodSourceLabel": "user"}, True),
        ({"prodsourcelabel": "user"}, {"prodSourceLabel": "unified"}, True),
        ({"prodsourcelabel": "install"}, {}, True),
        ({"prodsourcelabel": "rc_test"}, {}, False),
        ({"processingtype": "gangarobot"}, {"prodSourceLabel": "test"}, True),
        ({}, {"prodSourceLabel": "test"}, False),
        ({}, {"taskID": "1"}, True),
        ({}, {"taskID": "2"}, False),
        ({}, {"taskID": "None"}, True),
        ({"produserid": "ann"}, {"prodUserID": "bob"}, False),
        ({"produserid": "ann"}, {"prodUserID": "ann"}, True),
        ({"resource_type": "MCORE"}, {"resourceType": "SCORE"}, False),
        ({"resource_type": "MCORE"}, {"resourceType": "MCORE"}, True),
        ({"computingsite": "TEST"}, {"siteName": "TEST"}, False),
        ({"computingsite": "TEST", "prodsourcelabel": "test"}, {"siteName": "TEST"}, True),
        ({}, {"siteName": "R"}, False),
        ({}, {"siteName": "NOWHERE"}, False),
    ],
)
def test_which_jobs_a_pilot_gets(
    shared_database: Database, client: Client, columns: dict[str, Any], fields: dict[str, str], gets: bool
) -> None:
    fill(shared_database, [job(5, **columns)])
    assert post(client, "getJob", **PILOT | fields)["StatusCode"] == (0 if gets else 20)
    assert rows(shared_database, "SELECT jobstatus FROM doma_panda.jobsactive4") == [("sent" if gets else "activated",)]


@pytest.mark.parametrize(("corepower", "gets"), [(10, True), (9.9, False), (None, True)])
def test_a_job_with_a_cpu_time_goes_to_a_queue_with_enough(
    shared_database: Database, client: Client, corepower: float | None, gets: bool
) -> None:
    queue_row = queue("Q", maxtime=100, corepower=corepower)
    fill(shared_database, [], schedconfig_json=[queue_row])
    fill(shared_database, [job(5)], schedconfig_json=[queue_row])
    with shared_database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO broker.task_requirements (jeditaskid, cputime_s) VALUES (1, 1000)")
        connection.exec_driver_sql("DELETE FROM broker.waiting_jobs; DELETE FROM broker.task_queues")
    follow(shared_database)
    assert post(client, "getJob", **PILOT)["StatusCode"] == (0 if gets else 20)


def test_several_jobs_at_once(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5), job(6), job(7)])
    answer = post(client, "getJob", **PILOT, nJobs="2")
    assert [document["PandaID"] for document in answer["jobs"]] == [5, 6]
    response = call(client, "pilot/acquire_jobs", site_name="Q", prod_source_label="managed", n_jobs=5, node="n1")
    assert (response["success"], [document["PandaID"] for document in response["data"]["jobs"]]) == (True, [7])
    response = call(client, "pilot/acquire_jobs", site_name="Q")
    assert (response["success"], response["message"]) == (False, "No jobs in PanDA")


def test_each_job_goes_to_one_pilot(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(number) for number in range(100, 130)])

    def take_all(number: int) -> list[int]:
        pandaids = []
        while (answer := post(client, "getJob", **PILOT | {"node": f"n{number}"}))["StatusCode"] == 0:
            pandaids.append(int(answer["PandaID"]))
        return pandaids

    with ThreadPoolExecutor(4) as pool:
        jobs = [pandaid for pandaids in pool.map(take_all, range(4)) for pandaid in pandaids]
    assert sorted(jobs) == list(range(100, 130))


def test_the_worker_of_a_known_harvester_runs(shared_database: Database, client: Client) -> None:
    worker = {"harvesterid": "h", "workerid": 12, "status": "submitted", "lastupdate": "2026-08-01T10:00:00"}
    instances = [{"harvester_id": "h"}]
    fill(shared_database, [job(5), job(6)], harvester_workers=[worker], harvester_instances=instances)
    post(client, "getJob", **PILOT, harvester_id="h", worker_id="12")
    assert rows(shared_database, "SELECT status, njobs FROM doma_panda.harvester_workers") == [("running", 1)]
    query = "SELECT harvesterid, workerid, pandaid FROM doma_panda.harvester_rel_jobs_workers"
    assert rows(shared_database, query) == [("h", 12, 5)]
    assert post(client, "getJob", **PILOT, harvester_id="other", worker_id="3")["PandaID"] == 6
    assert rows(shared_database, query) == [("h", 12, 5)]


def test_requests_are_counted_at_known_queues(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5)])
    post(client, "getJob", **PILOT)
    post(client, "getJob", **PILOT)
    post(client, "getJob", **PILOT | {"siteName": "NOWHERE"})
    counts = rows(shared_database, "SELECT panda_queue, method, node, requests FROM broker.pilot_requests ORDER BY 2")
    assert counts == [("Q", "getjob", "n1", 2), ("Q", "nojob", "n1", 1)]


def test_a_client_that_does_not_accept_json_gets_a_form(shared_database: Database, client: Client) -> None:
    fill(shared_database, [job(5)])
    answer = client.post("/server/panda/getJob", data=PILOT, headers={"accept": "*/*"})
    fields = parse_qs(answer.text, keep_blank_values=True)
    assert (answer.status_code, fields["StatusCode"], fields["PandaID"]) == (200, ["0"], ["5"])


@pytest.mark.parametrize("path", ["/server/panda/getJob", "/server/panda/updateJob", "/api/v1/pilot/update_job"])
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {"content-type": "application/json"}, 400),
        (b"[]", {"content-type": "application/json"}, 400),
        (b'{"a": NaN}', {"content-type": "application/json"}, 400),
        (b"[" * 5000 + b"]" * 5000, {"content-type": "application/json"}, 400),
        (b"\xff\xfe", {"content-type": "application/json"}, 400),
        (b"no gzip", {"content-type": "application/json", "content-encoding": "gzip"}, 400),
        (b"{}", {"content-type": "application/json", "content-encoding": "br"}, 415),
        (b"x" * (8 * 2**20 + 1), {"content-type": "application/json"}, 413),
    ],
)
def test_bad_bodies_are_refused(client: Client, path: str, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = client.post(path, content=body, headers=headers)
    assert (answer.status_code, len(answer.text) < 100) == (status, True)


@pytest.mark.parametrize(
    ("fields", "code"), [({}, 50), ({"siteName": ""}, 50), ({"siteName": "a\0b'; DROP TABLE x; --"}, 20)]
)
def test_a_request_without_a_queue_is_invalid(client: Client, fields: dict[str, str], code: int) -> None:
    assert post(client, "getJob", **fields)["StatusCode"] == code


def test_the_grid_has_its_queues() -> None:
    assert [values["panda_queue"] for values in QUEUES] == ["Q", "R", "TEST"]


def test_the_recorded_host_and_the_request_of_its_pilot_decide_together(
    shared_database: Database, client: Client
) -> None:
    def specs_with(**spec: Any) -> str:
        return JobSpecs((Spec(**spec),), "atlas").canonical

    def pandaid_for(specs: str) -> int | None:
        fill(shared_database, [job(5)], worker_node=nodes, worker_node_gpus=gpus)
        with shared_database.begin() as connection:
            connection.execute(sa.text("TRUNCATE broker.waiting_jobs, broker.task_queues, broker.task_requirements"))
            attach(connection, 1, None, TaskRequirements(specs=specs))
        follow(shared_database)
        pandaid: int | None = post(client, "getJob", **PILOT | {"node": "slot1@n1"}).get("PandaID")
        return pandaid

    nodes: list[dict[str, Any]] = [
        {"site": "SITE", "host_name": "n1", "cpu_model": "a", "cpu_architecture": "x86_64",
         "cpu_architecture_level": "x86_64-v3", "last_seen": NOW.isoformat()},
        {"site": "SITE", "host_name": "n2", "cpu_model": "a", "cpu_architecture": "aarch64",
         "last_seen": NOW.isoformat()},
    ]  # fmt: skip
    gpus: list[dict[str, Any]] = []
    assert pandaid_for(specs_with(architecture="x86_64", level_least=3, ram_request=Memory(4000))) == 5
    assert pandaid_for(specs_with(level_least=4)) is None and pandaid_for(specs_with(architecture="aarch64")) is None
    assert pandaid_for(specs_with(ram_request=Memory(4001))) is None
    one_gpu = GpuNeed(Bounds(1), ram_mb=5000, vendor="NVIDIA")
    assert pandaid_for(specs_with(gpu=one_gpu)) is None
    gpus.append({"site": "SITE", "host_name": "n1", "vendor": "NVIDIA", "model": "T4", "count": 2, "vram": 5000})
    assert pandaid_for(specs_with(gpu=one_gpu)) == 5 and pandaid_for(specs_with(gpu=GpuNeed(Bounds(3)))) is None
    # a job without a GPU requirement gets no node with GPUs
    assert pandaid_for(specs_with()) is None
    gpus.append({"site": "SITE", "host_name": "n1", "vendor": "AMD", "model": "MI", "count": 1, "vram": 9000})
    assert pandaid_for(specs_with(gpu=GpuNeed(Bounds(3)))) == 5 and pandaid_for(specs_with(gpu=one_gpu)) is None
    nodes.clear()
    assert pandaid_for(specs_with(architecture="x86_64", gpu=GpuNeed(Bounds(1)))) is None


@pytest.mark.parametrize(
    ("node", "held_node", "minutes", "gets"),
    [("n1", "n1", 10, False), ("slot1_2@n1", "n1", 10, False), ("n2", "n1", 10, True), ("n1", "n1", -1, True)],
)
def test_the_pilot_of_a_held_node_gets_no_job(
    shared_database: Database, client: Client, node: str, held_node: str, minutes: int, gets: bool
) -> None:
    fill(shared_database, [job(5)])
    with shared_database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO broker.held_nodes VALUES ('Q', :node, now() + make_interval(mins => :minutes), 7, 7, 2)"
            ),
            {"node": held_node, "minutes": minutes},
        )
    answer = post(client, "getJob", **{**PILOT, "node": node})
    assert (answer["StatusCode"], answer.get("errorDialog", "")) == ((0, "") if gets else (20, AVOIDED))
    response = call(client, "pilot/acquire_jobs", site_name="Q", prod_source_label="managed", node=node)
    assert response["message"] == ("No jobs in PanDA" if gets else AVOIDED)
    counts = rows(shared_database, "SELECT method, requests FROM broker.pilot_requests ORDER BY method")
    assert counts == [("getjob", 2), ("nojob", 1 if gets else 2)]


def test_the_pilot_of_a_node_at_which_the_input_failed_gets_other_jobs(
    shared_database: Database, client: Client
) -> None:
    fill(shared_database, [job(5), job(6)])
    with shared_database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE broker.held_jobs")
        connection.exec_driver_sql("INSERT INTO broker.held_jobs VALUES (5, 'n1', 'Q', '2099-01-01 12:00Z')")
    request = {**PILOT, "node": "slot1@n1"}
    assert post(client, "getJob", **request)["PandaID"] == 6
    message = (
        "retry elsewhere: input of jobs that wait here failed at node n1, which gets them again from 2099-01-01T12:00"
    )
    answer = post(client, "getJob", **request)
    assert (answer["StatusCode"], answer["errorDialog"]) == (20, f"{message}:00+00:00")
    response = call(client, "pilot/acquire_jobs", site_name="Q", prod_source_label="managed", node="n1")
    assert response["message"] == answer["errorDialog"]
    assert post(client, "getJob", **{**PILOT, "node": "n2"})["PandaID"] == 5
