"""Events: what happens is sent to whoever listens, from where they were; names are for those who may see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.decided import decided_server
from tests.api.serving import client_of
from tests.conftest import TestServer

SSE = {"Accept": "text/event-stream"}
KEY = "/api/v1/config/NQUEUED_SAT_CAP"


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as found:
        yield found


def blocks(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and "data" in event:
            yield event
            event = {}
        elif name in ("event", "id"):
            event[name] = value
        elif name == "data":
            event["data"] = json.loads(value)


def test_polling_from_the_beginning_and_from_a_cursor(client: httpx.Client) -> None:
    everything = client.get("/api/v1/events", params={"since": "0-0-0-0"}).json()
    kinds = {one["event"] for one in everything["events"]}
    assert {"cycle", "tuning"} <= kinds
    again = client.get("/api/v1/events", params={"since": everything["next"]}).json()
    assert again == {"events": [], "next": everything["next"]}
    assert client.get("/api/v1/events").json()["next"] == everything["next"]
    assert client.get("/api/v1/events", params={"since": "yesterday"}).status_code == 400


def test_a_change_reaches_those_who_listen_and_names_those_who_may(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    begin = client.get("/api/v1/events").json()["next"]
    with client_of(decided[1], {}) as stranger, client.stream("GET", "/api/v1/events", headers=SSE) as known:
        lines = known.iter_lines()
        assert next(lines) == ": listening"
        changed = client.put(KEY, json={"value": 77, "reason": "to be seen"}).json()
        event = next(one for one in blocks(lines) if one["event"] == "tuning")
        assert event["data"]["version"] == changed["version"] and event["data"]["keys"] == ["NQUEUED_SAT_CAP"]
        editor = event["data"]["editor"]
        with stranger.stream("GET", "/api/v1/events", headers={**SSE, "Last-Event-ID": begin}) as unknown:
            seen = next(one for one in blocks(unknown.iter_lines()) if one["event"] == "tuning")
        assert seen["data"]["editor"] == "***" != editor and seen["data"]["version"] == changed["version"]
