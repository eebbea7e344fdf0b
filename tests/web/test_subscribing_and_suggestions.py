"""Suggestions of the search while typing, and subscriptions on the page of a task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.history.answers.search import SearchHit
from broker.history.pages.search import MOST_OF_A_KIND, MOST_SUGGESTED, some_of
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.web.conftest import BROWSER
from tests.web.test_sessions import csrf_of

SETTINGS = """
channels:
  shift: {kind: webhook, address: "https://127.0.0.1:1/told", secret_file: FILE}
subscriptions: {channels: [shift]}
"""


def test_a_few_of_each_kind_are_offered() -> None:
    hits = [
        SearchHit(kind=kind, name=f"{kind}-{at}", said="", place="x")  # type: ignore[arg-type]
        for kind in ("queue", "site", "key", "rule")
        for at in range(5)
    ]
    suggestions = some_of(hits)
    assert len(suggestions) == MOST_SUGGESTED and [hit.name for hit in suggestions[:4]] == [
        "queue-0",
        "queue-1",
        "queue-2",
        "site-0",
    ]
    assert sum(1 for hit in suggestions if hit.kind == "site") == MOST_OF_A_KIND


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("alpha_mcroe", "queue", "/queues/ALPHA_MCORE"),
        ("lowmem", "reason", "/reasons/lowmemory"),
        ("NQUEUED_SAT_CA", "key", "/tuning/NQUEUED_SAT_CAP"),
    ],
)
def test_suggestions_lead_to_pages_in_spite_of_typos(
    stranger: httpx.Client, text: str, kind: str, address: str
) -> None:
    suggestions = stranger.get("/search/suggestions", params={"q": text}).json()["suggestions"]
    assert (kind, address) in [(hit["kind"], hit["address"]) for hit in suggestions]
    assert stranger.get("/search/suggestions", params={"q": ""}).json() == {"suggestions": []}


@pytest.fixture
def subscriber(decided: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    """A logged-in browser at a server with a channel for subscribers."""
    folder = tmp_path / "config"
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("a secret of more than a few letters\n", encoding="ascii")
    secret.chmod(0o600)
    (folder / "notifications.yaml").write_text(SETTINGS.replace("FILE", str(secret)), encoding="utf-8")
    configuration = shipped(rate={"anonymous": {"per_s": 1000, "burst": 1000}, "tuner": {"per_s": 1000, "burst": 1000}})
    parts = page_parts(configuration, TOKEN, time.monotonic)
    with (
        serving(decided, tmp_path, configuration, parts=parts, folder=folder) as site,
        client_of(site, BROWSER) as page,
    ):
        assert page.post("/login", data={"token": TOKEN}).status_code == 303
        yield page


def test_a_channel_subscribes_to_a_task_on_its_page(subscriber: httpx.Client) -> None:
    task = subscriber.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["jeditaskid"]
    address = f"/tasks/{task}"
    page = subscriber.get(address).text
    assert f'action="{address}/subscribe"' in page and '<option value="shift">' in page
    fields = {"csrf": csrf_of(page), "to": "shift"}
    assert subscriber.post(f"{address}/subscribe", data={**fields, "csrf": "x"}).status_code == 403
    assert subscriber.post(f"{address}/subscribe", data={**fields, "to": " "}).status_code == 422
    assert subscriber.post(f"{address}/subscribe", data={**fields, "to": "nobody"}).status_code == 400
    assert subscriber.post(f"{address}/subscribe", data=fields).headers["location"] == f"{address}#subscriptions"
    assert f'action="{address}/unsubscribe"' in subscriber.get(address).text
    assert subscriber.post(f"{address}/unsubscribe", data=fields).status_code == 303
    assert f'action="{address}/unsubscribe"' not in subscriber.get(address).text


def test_subscribing_needs_a_login(stranger: httpx.Client) -> None:
    task = stranger.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["jeditaskid"]
    assert "/subscribe" not in stranger.get(f"/tasks/{task}").text
    assert stranger.post(f"/tasks/{task}/subscribe", data={"to": "shift"}).status_code in (401, 403)


def test_a_task_is_shown_in_spite_of_invalid_notification_settings(subscriber: httpx.Client, tmp_path: Path) -> None:
    task = subscriber.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["jeditaskid"]
    (tmp_path / "config" / "notifications.yaml").write_text("channels: 1\n", encoding="utf-8")
    page = subscriber.get(f"/tasks/{task}")
    assert page.status_code == 200 and "/subscribe" not in page.text
