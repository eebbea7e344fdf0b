from __future__ import annotations

import json
from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import call, fill, post, row, rows

DONE = {"success": True, "message": "", "data": None}
NODE = {"site": "S", "host_name": "slot1@h", "cpu_model": "AMD EPYC"}
GPU = {"site": "S", "host_name": "h", "vendor": "NVIDIA", "model": "A100", "count": 4}


def test_a_pilot_reports_its_start_and_end(shared_database: Database, client: Client) -> None:
    fill(shared_database, [], harvester_workers=[{"harvesterid": "h", "workerid": 12, "status": "running"}])
    for status in ("started", "finished"):
        answer = post(client, "updateWorkerPilotStatus", workerID="12", harvesterID="h", status=status, node_id="n")
        assert answer == {"StatusCode": 0}
    worker = row(shared_database, "SELECT * FROM doma_panda.harvester_workers")
    assert (worker["pilotstatus"], worker["nodeid"]) == ("finished", "n")
    assert worker["pilotstarttime"] <= worker["pilotendtime"] == worker["pilotstatussynctime"]
    values = {"worker_id": "13", "harvester_id": "h", "status": "started"}
    assert call(client, "pilot/update_worker_status", **values) == DONE
    assert call(client, "pilot/update_worker_status", **values | {"status": "idle"})["success"] is False
    assert call(client, "pilot/update_worker_status", **values | {"worker_id": "x"})["success"] is False
    assert len(rows(shared_database, "SELECT FROM doma_panda.harvester_workers")) == 1


@pytest.mark.parametrize(
    "fields",
    [{}, {"workerID": "x", "harvesterID": "h", "status": "started"}, {"workerID": "1", "harvesterID": "h"},
     {"workerID": "1", "harvesterID": "h", "status": "lost"}],
)  # fmt: skip
def test_a_bad_status_is_refused(client: Client, fields: dict[str, str]) -> None:
    assert post(client, "updateWorkerPilotStatus", **fields)["StatusCode"] == 50


def test_a_node_is_stored_and_its_gpus_are_updated(shared_database: Database, client: Client) -> None:
    fill(shared_database, [])
    assert call(client, "pilot/update_worker_node", **NODE, panda_queue="Q", n_logical_cpus=64) == DONE
    level = {"cpu_architecture_level": "x86-64-v3", "n_logical_cpus": 32}
    assert call(client, "pilot/update_worker_node", **NODE, **level) == DONE
    node = row(shared_database, "SELECT * FROM doma_panda.worker_node")
    assert (node["host_name"], node["n_logical_cpus"], node["cpu_architecture_level"]) == ("h", 64, "x86-64-v3")
    assert rows(shared_database, "SELECT site, host_name, panda_queue FROM doma_panda.worker_node_queue") == [
        ("S", "h", "Q")
    ]
    assert call(client, "pilot/update_worker_node_gpu", **GPU, driver_version="1") == DONE
    assert call(client, "pilot/update_worker_node_gpu", **GPU | {"count": 2}, driver_version="2", vram=5) == DONE
    gpus = row(shared_database, "SELECT * FROM doma_panda.worker_node_gpus")
    assert (gpus["count"], gpus["driver_version"], gpus["vram"]) == (2, "2", 5)


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("pilot/update_worker_node", NODE | {"site": 1}),
        ("pilot/update_worker_node", {"site": "S"}),
        ("pilot/update_worker_node", NODE | {"colour": "red"}),
        ("pilot/update_worker_node", NODE | {"host_name": ""}),
        ("pilot/update_worker_node", NODE | {"n_sockets": 2**40}),
        ("pilot/update_worker_node_gpu", GPU | {"count": "4"}),
        ("pilot/update_worker_node_gpu", GPU | {"vram": -1}),
        ("harvester/heartbeat", {}),
        ("harvester/heartbeat", {"harvester_id": "h", "data": {"startTime": "soon"}}),
        ("harvester/update_workers", {"harvester_id": "h", "workers": {}}),
        ("harvester/report_worker_statistics", {"harvester_id": "h", "panda_queue": "Q", "statistics": "{"}),
        ("harvester/report_worker_statistics", {"harvester_id": "h", "panda_queue": "Q", "statistics": {"a": 1}}),
    ],
)
def test_bad_arguments_are_refused(client: Client, method: str, values: dict[str, Any]) -> None:
    answer = call(client, method, **values)
    assert (answer["success"], answer["message"].startswith("Argument error: ")) == (False, True)


def test_harvester_reports_its_workers(shared_database: Database, client: Client) -> None:
    fill(shared_database, [])
    workers = [
        {"workerID": 1, "status": "submitted", "computingSite": "Q", "submitTime": "02-NOV-24 00:02:18", "nCore": 8},
        {"workerID": "x"},
    ]
    answer = call(client, "harvester/update_workers", harvester_id="h", workers=workers)
    assert answer == {"success": True, "message": "", "data": [True, False]}
    call(client, "harvester/update_workers", harvester_id="h", workers=[{"workerID": 1, "status": "running"}])
    worker = row(shared_database, "SELECT * FROM doma_panda.harvester_workers")
    assert (worker["status"], worker["computingsite"], worker["ncore"]) == ("running", "Q", 8)
    data = {"startTime": "2026-08-01 10:00:00", "sw_version": "0.5"}
    assert call(client, "harvester/heartbeat", harvester_id="h", data=data) == DONE
    assert call(client, "harvester/heartbeat", harvester_id="h") == DONE
    instance = row(shared_database, "SELECT * FROM doma_panda.harvester_instances")
    assert (instance["owner"], instance["sw_version"], instance["starttime"].hour) == ("local", "0.5", 10)


def test_worker_statistics_are_replaced(shared_database: Database, client: Client) -> None:
    fill(shared_database, [])
    first = {"managed": {"SCORE": {"running": 1, "submitted": 2}, "Undefined": {"running": 9}}}
    second = {"user": {"MCORE": {"running": 3}}}
    report = {"harvester_id": "h", "panda_queue": "Q"}
    assert call(client, "harvester/report_worker_statistics", **report, statistics=json.dumps(first)) == DONE
    query = "SELECT jobtype, resourcetype, status, n_workers FROM doma_panda.harvester_worker_stats ORDER BY 3"
    assert rows(shared_database, query) == [("managed", "SCORE", "running", 1), ("managed", "SCORE", "submitted", 2)]
    other_queue = report | {"panda_queue": "R"}
    assert call(client, "harvester/report_worker_statistics", **other_queue, statistics=second) == DONE
    assert call(client, "harvester/report_worker_statistics", **report, statistics=second) == DONE
    assert rows(shared_database, query) == [("user", "MCORE", "running", 3)] * 2


def test_pilots_read_the_data_of_queues(shared_database: Database, client: Client) -> None:
    fill(shared_database, [], schedconfig_json=[
        {"panda_queue": "Q", "data": {"nickname": "Q", "maxwdir": 100, "timefloor": None}},
        {"panda_queue": "BAD", "data": []},
    ], ddm_endpoint=[{"ddm_endpoint_name": "DISK", "site_name": "S", "type": "DATADISK", "is_tape": "N"}])  # fmt: skip
    minimal = {"nickname": "Q", "panda_resource": "Q", "atlas_site": "Q", "state": "ACTIVE", "maxwdir": 100}
    assert client.get("/cache/schedconfig/Q.json").json() == minimal
    assert client.get("/cache/schedconfig/Q.all.json").json() == {"Q": minimal}
    assert client.get("/cache/schedconfig/schedconfig.all.json").json() == {"Q": minimal}
    assert client.get("/cache/schedconfig/BAD.json").status_code == 404
    assert client.get("/cache/schedconfig/NOWHERE.json").status_code == 404
    endpoint = {"name": "DISK", "site": "S", "state": "ACTIVE", "type": "DATADISK", "is_tape": False}
    assert client.get("/cache/ddmendpoints.json").json() == {"DISK": endpoint}
