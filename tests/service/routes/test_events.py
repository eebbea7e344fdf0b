"""Events are sent to listeners from their cursor on; names are shown to authorized listeners only."""

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
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        yield database_and_server


@pytest.fixture
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as http_client:
        yield http_client


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
    all_events = client.get("/api/v1/events", params={"since": "0-0-0-0"}).json()
    kinds = {event["event"] for event in all_events["events"]}
    assert {"cycle", "tuning"} <= kinds
    rest = client.get("/api/v1/events", params={"since": all_events["next"]}).json()
    assert rest == {"events": [], "next": all_events["next"]}
    assert client.get("/api/v1/events").json()["next"] == all_events["next"]
    assert client.get("/api/v1/events", params={"since": "yesterday"}).status_code == 400


def test_a_change_reaches_listeners_and_only_authorized_ones_see_names(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    begin = client.get("/api/v1/events").json()["next"]
    with client_of(decided[1], {}) as stranger, client.stream("GET", "/api/v1/events", headers=SSE) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": listening"
        change = client.put(KEY, json={"value": 77, "reason": "to be seen"}).json()
        event = next(block for block in blocks(lines) if block["event"] == "tuning")
        assert event["data"]["version"] == change["version"] and event["data"]["keys"] == ["NQUEUED_SAT_CAP"]
        editor = event["data"]["editor"]
        with stranger.stream("GET", "/api/v1/events", headers={**SSE, "Last-Event-ID": begin}) as anonymous_stream:
            masked_event = next(block for block in blocks(anonymous_stream.iter_lines()) if block["event"] == "tuning")
        assert (
            masked_event["data"]["editor"] == "***" != editor and masked_event["data"]["version"] == change["version"]
        )
