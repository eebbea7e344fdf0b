"""Parameters that nothing reads, and values that there cannot be, are refused with the nearest name."""

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
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, server), client_of(server) as found:
        yield found


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
    refused = client.get(f"{V1}/{path}", params={name: "1"})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_parameter")
    assert refused.json()["errors"][0]["where"] == f"query.{name}"
    expected = "known are" if nearest is None else f"did you mean {nearest}"
    assert expected in refused.json()["remedy"]


def test_a_write_with_an_unknown_parameter_writes_nothing(client: httpx.Client) -> None:
    key = f"{V1}/config/NQUEUED_SAT_CAP"
    before = client.get(key).json()["version"]
    refused = client.put(key, params={"v0": "atlas"}, json={"value": 77, "reason": "x"})
    assert refused.status_code == 422 and client.get(key).json()["version"] == before


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
def test_a_value_that_there_cannot_be_is_no_empty_list(
    client: httpx.Client, path: str, params: dict[str, str], status: int, nearest: str
) -> None:
    answer = client.get(f"{V1}/{path}", params=params)
    assert answer.status_code == status, answer.text
    if status == 422:
        assert answer.json()["code"] == "unknown_value" and nearest in (answer.json()["remedy"] or "")


@pytest.mark.parametrize(("path", "name"), [("tasks", "at"), ("tasks", "since"), ("queues", "at")])
def test_an_instant_is_no_number(client: httpx.Client, path: str, name: str) -> None:
    for written in ("0.5", "1700000000", "-3"):
        refused = client.get(f"{V1}/{path}", params={name: written})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), written
        assert "2026-11-23T21:45:00Z" in refused.json()["detail"]
    for written in ("2026-08-01T12:00:00Z", "2026-08-01T12:00:00", "2026-08-01 12:00"):
        assert client.get(f"{V1}/{path}", params={name: written}).status_code == 200, written
