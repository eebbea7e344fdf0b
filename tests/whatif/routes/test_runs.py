"""Runs: requested, executed in a separate process with progress, cancelled, or refused before they are queued."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.decided import decided_server
from tests.api.serving import client_of
from tests.brokerages.small_grid import NOW, TASK
from tests.conftest import TestServer

V1 = "/api/v1"
UNTIL = NOW.isoformat()
DEADLINE_S = 120


@pytest.fixture(scope="module")
def client(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, server), client_of(server) as http_client:
        yield http_client


def wait_for_end(client: httpx.Client, response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 202, response.text
    deadline_s = time.monotonic() + DEADLINE_S
    run: dict[str, Any] = {}
    pause = threading.Event()
    while time.monotonic() < deadline_s:
        run = client.get(response.headers["location"]).json()
        if run["state"] not in ("waiting", "running"):
            return run
        pause.wait(0.1)
    raise AssertionError(run)


@pytest.mark.slow
def test_a_what_if_a_sweep_and_a_replay(client: httpx.Client) -> None:
    responses = [
        client.post(f"{V1}/what-if", json={"set": {"NQUEUED_SAT_CAP": 1}, "until": UNTIL}),
        client.post(f"{V1}/replay", json={"until": UNTIL}),
        client.post(f"{V1}/sweep", json={"ranges": ["NQUEUED_SAT_CAP=100:200:100"], "until": UNTIL}),
    ]
    what_if, replay, sweep = (wait_for_end(client, response) for response in responses)
    assert what_if["state"] == "done", what_if
    assert what_if["done"] == what_if["total"] == 1 and what_if["result"]["totals"][0]["decisions"] == 3
    assert replay["result"]["identical"] == 3 and replay["result"]["different"] == 0
    assert [point["set"] for point in sweep["result"]["points"]] == [{"NQUEUED_SAT_CAP": 100}, {"NQUEUED_SAT_CAP": 200}]
    first_page = client.get(f"{V1}/runs", params={"limit": 2}).json()
    assert [run["kind"] for run in first_page["items"]] == ["sweep", "replay"] and first_page["next"]
    rest = client.get(f"{V1}/runs", params={"limit": 2, "after": first_page["next"]}).json()
    assert [run["kind"] for run in rest["items"]] == ["what_if"]


@pytest.mark.slow
def test_a_replay_of_one_snapshot(client: httpx.Client) -> None:
    snapshot = client.get(f"{V1}/tasks/{TASK}/decision").json()["decisions"][0]["snapshot"]
    responses = [client.post(f"{V1}/replay", json={"snapshot": name, "until": UNTIL}) for name in (snapshot, "another")]
    of_snapshot, of_another = (wait_for_end(client, response) for response in responses)
    assert (of_snapshot["result"]["identical"], of_snapshot["result"]["cycles"]) == (3, 1)
    assert (of_another["state"], of_another["problem"]["code"]) == ("failed", "no_such_snapshot"), of_another
    without_a_time = wait_for_end(client, client.post(f"{V1}/replay", json={"snapshot": snapshot}))
    assert without_a_time["state"] == "done", "of whatever time it is"


@pytest.mark.slow
def test_a_preview_sums_up_the_differences(client: httpx.Client) -> None:
    response = client.post(f"{V1}/config:preview", json={"set": {"NQUEUED_SAT_CAP": 1}})
    assert client.get(response.headers["location"]).json()["asked"]["decisions"] == 200
    result = wait_for_end(client, response)["result"]
    totals = result["totals"]
    assert result["summary"] == {
        "decisions": sum(total["decisions"] for total in totals),
        "changed": sum(total["changed"] for total in totals),
        "jobs": sum(total["jobs"]["before"] for total in totals),
        "jobs_moved": sum(total["jobs"]["moved"] for total in totals),
        "tasks_losing_last_queue": sum(total["tasks_losing_last_queue"] for total in totals),
    }
    assert result["summary"]["decisions"] == 3


@pytest.mark.slow
def test_a_run_is_cancelled_and_a_run_without_cycles_fails_with_a_reason(client: httpx.Client) -> None:
    failed_run = wait_for_end(client, client.post(f"{V1}/what-if", json={"set": {"NQUEUED_SAT_CAP": 1}, "last_s": 1}))
    assert (failed_run["state"], failed_run["problem"]["code"]) == ("failed", "nothing_stored")
    response = client.post(f"{V1}/sweep", json={"ranges": ["NQUEUED_SAT_CAP=1:150:1"], "until": UNTIL})
    number = response.json()["id"]
    assert client.post(f"{V1}/runs/{number}:cancel").status_code == 200
    assert wait_for_end(client, response)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("what-if", {"set": {"NOTHING": 1}}, 404),
        ("what-if", {"set": {"NQUEUED_SAT_CAP": -1}}, 409),
        ("what-if", {"rules": {"link_ful": False}}, 404),
        ("sweep", {"ranges": ["NQUEUED_SAT_CAP=100:200:100"], "rules": {"link_ful": True}}, 404),
        ("sweep", {"ranges": ["NQUEUED_SAT_CAP=1:100000:1"]}, 409),
        ("sweep", {"ranges": ["NQUEUED_SAT_CAP"]}, 400),
        ("config:preview", {"set": {}}, 422),
        ("replay", {"last_s": 0}, 422),
    ],
)
def test_invalid_runs_are_refused_at_once(client: httpx.Client, path: str, body: dict[str, Any], status: int) -> None:
    answer = client.post(f"{V1}/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert client.get(f"{V1}/runs/999999").status_code == 404
