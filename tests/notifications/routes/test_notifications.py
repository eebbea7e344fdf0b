"""Notifications over HTTP: subscriptions with a token, the history of messages, channels without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from agents.notifications.settings_file import FILE
from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.agents.notifications.telling import FAILING, PLAIN, Told, cycle
from tests.api.serving import client_of, serving

V1 = "/api/v1"


@pytest.fixture
def server(database: Database, tmp_path: Path) -> Iterator[ApiServer]:
    secret = tmp_path / "secret"
    secret.write_text("the-secret")
    hook = {"kind": "webhook", "address": "https://example.org/a/very-secret", "secret_file": str(secret)}
    settings = {**PLAIN, "channels": {**PLAIN["channels"], "hook": hook}}
    (tmp_path / FILE).write_text(yaml.safe_dump(settings))
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status) VALUES (1, 'mc.first', 'running')"
        )
    with serving(database, tmp_path, folder=tmp_path) as api:
        yield api


@pytest.fixture
def client(server: ApiServer) -> Iterator[httpx.Client]:
    with client_of(server) as http_client:
        yield http_client


def test_subscribing_and_unsubscribing(client: httpx.Client) -> None:
    answer = client.post(f"{V1}/tasks/1:subscribe", json={"to": "ann@example.org"})
    assert answer.status_code == 200, answer.text
    (subscription,) = client.get(f"{V1}/tasks/1/subscriptions").json()["subscriptions"]
    assert (subscription["to"], subscription["ended_at"]) == ("ann@example.org", None)
    answer = client.post(f"{V1}/tasks/1:unsubscribe", json={"to": "ann@example.org"})
    assert answer.json()["subscriptions"][0]["ended_at"] is not None


@pytest.mark.parametrize(
    ("task", "to", "status", "code"),
    [
        (1, "ann@elsewhere.org", 400, "no_such_target"),
        (7, "room", 404, "nothing_found"),
        (1, "", 422, "invalid_request"),
    ],
)
def test_what_cannot_be_is_refused(client: httpx.Client, task: int, to: str, status: int, code: str) -> None:
    answer = client.post(f"{V1}/tasks/{task}:subscribe", json={"to": to})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


def test_subscribing_and_reading_need_a_token(server: ApiServer) -> None:
    with client_of(server, {}) as stranger:
        assert stranger.post(f"{V1}/tasks/1:subscribe", json={"to": "room"}).status_code == 401
        for path in ("notifications", "notifications/channels", "tasks/1/subscriptions"):
            assert stranger.get(f"{V1}/{path}").status_code == 401


def test_messages_are_paged_and_filtered(database: Database, client: httpx.Client) -> None:
    cycle(database, Told(), FAILING)
    cycle(database, Told(ill={"ops"}), minutes=10)
    params = {"since": "2026-08-01T00:00:00Z"}
    page = client.get(f"{V1}/notifications", params={**params, "limit": 1}).json()
    assert [message["event"] for message in page["messages"]] == ["resolved"]
    rest = client.get(f"{V1}/notifications", params={**params, "limit": 1, "before": page["next_before"]}).json()
    assert [message["event"] for message in rest["messages"]] == ["opened"]
    assert rest["messages"][0]["incident"] == page["messages"][0]["incident"]
    waiting = client.get(f"{V1}/notifications", params={**params, "state": "waiting"}).json()
    assert [message["event"] for message in waiting["messages"]] == ["resolved"]
    assert client.get(f"{V1}/notifications", params={"state": "nonsense"}).status_code == 422


def test_channels_are_shown_without_secrets(client: httpx.Client) -> None:
    answer = client.get(f"{V1}/notifications/channels")
    assert {channel["channel"] for channel in answer.json()["channels"]} == {"ops", "room", "hook"}
    assert "very-secret" not in answer.text and "the-secret" not in answer.text
