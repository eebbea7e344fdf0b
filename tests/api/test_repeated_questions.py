"""Unchanged answers are not sent again, however much later the client asks; large ones are compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import forget_clock
from tests.api.decided import decided_database
from tests.api.serving import client_of, serving
from tests.brokerages.small_grid import NOW, TASK
from tests.conftest import TestServer

V1 = "/api/v1"
LATER = timedelta(seconds=7)


@pytest.fixture(scope="module")
def clock() -> list[datetime]:
    return [NOW]


@pytest.fixture(scope="module")
def decided(test_server: TestServer) -> Iterator[Database]:
    with decided_database(test_server) as database:
        with database.begin() as connection:
            forget_clock(connection)
        yield database


@pytest.fixture(scope="module")
def client(
    decided: Database, clock: list[datetime], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    home = tmp_path_factory.mktemp("home")
    with serving(decided, home, now=lambda: clock[0]) as server, client_of(server) as http_client:
        yield http_client


@pytest.mark.parametrize(
    "path",
    [
        "links",
        "queues",
        "queues/ALPHA_MCORE",
        "rules/production_job",
        "nuclei",
        "nuclei/ALPHA",
        "shares",
        "tasks",
        f"tasks/{TASK}/history",
        f"tasks/{TASK + 2}/decision",
        f"tasks/{TASK + 2}/why-not/ALPHA_MCORE",
        "reasons",
        "users/prodsys",
        "config",
        "pins",
        "whoami",
        "openapi.json",
    ],
)
def test_an_answer_that_differs_only_in_time_is_not_sent_again(
    client: httpx.Client, clock: list[datetime], path: str
) -> None:
    clock[0] = NOW
    first = client.get(f"{V1}/{path}")
    assert first.status_code == 200 and first.headers["etag"].startswith('W/"')
    clock[0] = NOW + LATER
    repeated = client.get(f"{V1}/{path}", headers={"If-None-Match": first.headers["etag"]})
    differences = _differences(first.json(), client.get(f"{V1}/{path}").json())
    assert (repeated.status_code, repeated.content) == (304, b""), differences


def _differences(first: Any, second: Any) -> list[tuple[str, Any, Any]]:
    return [(name, value, second.get(name)) for name, value in first.items() if second.get(name) != value]


def test_a_changed_answer_has_another_tag(client: httpx.Client) -> None:
    headers = {"If-None-Match": client.get(f"{V1}/config").headers["etag"]}
    assert client.put(f"{V1}/config/NQUEUED_SAT_CAP", json={"value": 91, "reason": "try"}).status_code == 200
    assert client.get(f"{V1}/config", headers=headers).status_code == 200


def test_a_page_of_a_list_is_not_sent_again_but_another_page_is_sent(
    client: httpx.Client, clock: list[datetime]
) -> None:
    clock[0] = NOW
    headers = {"If-None-Match": client.get(f"{V1}/tasks", params={"limit": 1}).headers["etag"]}
    clock[0] = NOW + LATER
    same, other = (client.get(f"{V1}/tasks", params={"limit": limit}, headers=headers) for limit in (1, 2))
    assert (same.status_code, same.content, other.status_code) == (304, b"", 200)


@pytest.mark.parametrize(("path", "compressed"), [("rules/production_job", True), ("whoami", False)])
def test_large_answers_are_compressed_for_clients_that_accept_it(
    client: httpx.Client, path: str, compressed: bool
) -> None:
    def raw(encoding: str) -> tuple[httpx.Headers, bytes]:
        with client.stream("GET", f"{V1}/{path}", headers={"Accept-Encoding": encoding}) as answer:
            return answer.headers, b"".join(answer.iter_raw())

    headers, body = raw("gzip")
    plain_headers, plain = raw("identity")
    assert (
        headers.get("content-encoding") == ("gzip" if compressed else None) and "content-encoding" not in plain_headers
    )
    assert headers["etag"] == plain_headers["etag"] and ("Accept-Encoding" in headers["vary"] or not compressed)
    text = gzip.decompress(body) if compressed else body
    assert (len(plain) > 1024) is compressed and json.loads(text).keys() == json.loads(plain).keys()
    assert len(body) < len(plain) / 2 or not compressed
