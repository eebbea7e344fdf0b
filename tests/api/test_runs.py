"""Runs: asked for, done in a process of their own, with progress; cancelled; refused before they wait."""

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
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, server), client_of(server) as found:
        yield found


def ended(client: httpx.Client, started: httpx.Response) -> dict[str, Any]:
    assert started.status_code == 202, started.text
    ends = time.monotonic() + DEADLINE_S
    found: dict[str, Any] = {}
    pause = threading.Event()
    while time.monotonic() < ends:
        found = client.get(started.headers["location"]).json()
        if found["state"] not in ("waiting", "running"):
            return found
        pause.wait(0.1)
    raise AssertionError(found)


@pytest.mark.slow
def test_a_what_if_a_sweep_and_a_replay(client: httpx.Client) -> None:
    asked = [
        client.post(f"{V1}/what-if", json={"set": {"NQUEUED_SAT_CAP": 1}, "until": UNTIL}),
        client.post(f"{V1}/replay", json={"until": UNTIL}),
        client.post(f"{V1}/sweep", json={"ranges": ["NQUEUED_SAT_CAP=100:200:100"], "until": UNTIL}),
    ]
    what_if, replay, sweep = (ended(client, one) for one in asked)
    assert what_if["state"] == "done", what_if
    assert what_if["done"] == what_if["total"] == 1 and what_if["result"]["totals"][0]["decisions"] == 3
    assert replay["result"]["identical"] == 3 and replay["result"]["different"] == 0
    assert [one["set"] for one in sweep["result"]["points"]] == [{"NQUEUED_SAT_CAP": 100}, {"NQUEUED_SAT_CAP": 200}]
    listed = client.get(f"{V1}/runs", params={"limit": 2}).json()
    assert [one["kind"] for one in listed["items"]] == ["sweep", "replay"] and listed["next"]
    rest = client.get(f"{V1}/runs", params={"limit": 2, "after": listed["next"]}).json()
    assert [one["kind"] for one in rest["items"]] == ["what_if"]


@pytest.mark.slow
def test_a_replay_of_one_snapshot(client: httpx.Client) -> None:
    snapshot = client.get(f"{V1}/tasks/{TASK}/decision").json()["decisions"][0]["snapshot"]
    asked = [client.post(f"{V1}/replay", json={"snapshot": one, "until": UNTIL}) for one in (snapshot, "another")]
    of_snapshot, of_another = (ended(client, one) for one in asked)
    assert (of_snapshot["result"]["identical"], of_snapshot["result"]["cycles"]) == (3, 1)
    assert (of_another["state"], of_another["problem"]["code"]) == ("failed", "no_such_snapshot"), of_another
    without_a_time = ended(client, client.post(f"{V1}/replay", json={"snapshot": snapshot}))
    assert without_a_time["state"] == "done", "of whatever time it is"


@pytest.mark.slow
def test_a_preview_sums_up_what_becomes_different(client: httpx.Client) -> None:
    started = client.post(f"{V1}/config:preview", json={"set": {"NQUEUED_SAT_CAP": 1}})
    assert client.get(started.headers["location"]).json()["asked"]["decisions"] == 200
    result = ended(client, started)["result"]
    totals = result["totals"]
    assert result["summary"] == {
        "decisions": sum(one["decisions"] for one in totals),
        "changed": sum(one["changed"] for one in totals),
        "jobs": sum(one["jobs"]["before"] for one in totals),
        "jobs_moved": sum(one["jobs"]["moved"] for one in totals),
        "tasks_losing_last_queue": sum(one["tasks_losing_last_queue"] for one in totals),
    }
    assert result["summary"]["decisions"] == 3


@pytest.mark.slow
def test_a_run_is_cancelled_and_one_without_cycles_fails_with_its_reason(client: httpx.Client) -> None:
    nothing = ended(client, client.post(f"{V1}/what-if", json={"set": {"NQUEUED_SAT_CAP": 1}, "last_s": 1}))
    assert (nothing["state"], nothing["problem"]["code"]) == ("failed", "nothing_stored")
    started = client.post(f"{V1}/sweep", json={"ranges": ["NQUEUED_SAT_CAP=1:150:1"], "until": UNTIL})
    number = started.json()["id"]
    assert client.post(f"{V1}/runs/{number}:cancel").status_code == 200
    assert ended(client, started)["state"] == "cancelled"


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
def test_what_cannot_be_tried_is_refused_at_once(
    client: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    answer = client.post(f"{V1}/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert client.get(f"{V1}/runs/999999").status_code == 404
