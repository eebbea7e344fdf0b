"""Unknown parameters and impossible values are refused with the nearest valid name."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.api.decided import decided_server
from tests.api.serving import client_of
from tests.brokerages.small_grid import TASK
from tests.conftest import TestServer

V1 = "/api/v1"


@pytest.fixture(scope="module")
def client(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, server), client_of(server) as http_client:
        yield http_client


@pytest.mark.parametrize(
    ("path", "name", "nearest"),
    [
        ("tasks", "bogus", None),
        ("tasks", "reasons", "reason"),
        ("tasks", "Status", "status"),
        ("queues", "staus", "status"),
        (f"tasks/{TASK}/decision", "evaluat", "evaluate"),
        ("config", "onlyset", "only_set"),
        ("whoami", "at", None),
    ],
)
def test_an_unknown_parameter_is_refused(client: httpx.Client, path: str, name: str, nearest: str | None) -> None:
    refusal = client.get(f"{V1}/{path}", params={name: "1"})
    assert (refusal.status_code, refusal.json()["code"]) == (422, "unknown_parameter")
    assert refusal.json()["errors"][0]["where"] == f"query.{name}"
    expected = "known are" if nearest is None else f"did you mean {nearest}"
    assert expected in refusal.json()["remedy"]


def test_a_write_with_an_unknown_parameter_writes_nothing(client: httpx.Client) -> None:
    key = f"{V1}/config/NQUEUED_SAT_CAP"
    before = client.get(key).json()["version"]
    refusal = client.put(key, params={"v0": "atlas"}, json={"value": 77, "reason": "x"})
    assert refusal.status_code == 422 and client.get(key).json()["version"] == before


@pytest.mark.parametrize(
    ("path", "params", "status", "nearest"),
    [
        ("tasks", {"status": "nonsense"}, 422, ""),
        ("tasks", {"status": "runing"}, 422, "running"),
        ("tasks", {"status": "finished"}, 200, ""),
        ("tasks", {"status": "throttled"}, 200, ""),
        ("tasks", {"reason": "lowmem"}, 422, "lowmemory"),
        ("tasks", {"reason": "shortwalltime"}, 200, ""),
        ("queues", {"status": "onlin"}, 422, "online"),
        ("queues", {"status": "brokeroff"}, 200, ""),
    ],
)
def test_an_impossible_filter_value_is_refused(
    client: httpx.Client, path: str, params: dict[str, str], status: int, nearest: str
) -> None:
    answer = client.get(f"{V1}/{path}", params=params)
    assert answer.status_code == status, answer.text
    if status == 422:
        assert answer.json()["code"] == "unknown_value" and nearest in (answer.json()["remedy"] or "")


@pytest.mark.parametrize(("path", "name"), [("tasks", "at"), ("tasks", "since"), ("queues", "at")])
def test_a_number_is_no_instant(client: httpx.Client, path: str, name: str) -> None:
    for text in ("0.5", "1700000000", "-3"):
        refusal = client.get(f"{V1}/{path}", params={name: text})
        assert (refusal.status_code, refusal.json()["code"]) == (422, "invalid_request"), text
        assert "2026-11-23T21:45:00Z" in refusal.json()["detail"]
    for text in ("2026-08-01T12:00:00Z", "2026-08-01T12:00:00", "2026-08-01 12:00"):
        assert client.get(f"{V1}/{path}", params={name: text}).status_code == 200, text
