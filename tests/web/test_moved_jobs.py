"""A change that moves more jobs than its editor allows is refused and recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import PreviewCounts, judged
from broker.whatif.answers.previews import moved_jobs
from broker.whatif.statements import runs
from tests.api.serving import client_of
from tests.web.test_sessions import csrf_of

KEY = "MAX_MISSING_INPUT_FILES"
TOTALS = [
    {"jobs": {"moved": 30, "before": 90, "after": 90}, "queues": {}},
    {"jobs": {"moved": 12, "before": 10, "after": 10}, "queues": {}},
]
FEWER = [{"jobs": {"moved": 5, "before": 100, "after": 100}, "queues": {}}]


@pytest.mark.parametrize(
    ("run", "limit", "share", "message"),
    [
        (7, 42, 1.0, "run 7: 42 of 100 jobs move, at most 42"),
        (7, 4, 0.1, "run 7: 4 of 100 jobs move, at most 4"),
        (None, 50, 1.0, "previewed: 42 of 100 jobs move, at most 50"),
    ],
)
def test_a_change_within_the_limit_says_so(run: int | None, limit: int, share: float, message: str) -> None:
    assert judged(PreviewCounts(42, 100, run), limit, share) == message


@pytest.mark.parametrize(
    ("preview", "limit", "share", "code", "message"),
    [
        (PreviewCounts(42, 100, 7), 41, 1.0, "too_many_jobs_move", "run 7, moves 42 of 100 jobs; at most 41 may move"),
        (PreviewCounts(42, 100), 3, 0.1, "too_many_jobs_move", "of the chosen tasks about 4; at most 3"),
        (None, 99, 1.0, "not_previewed", "not previewed within the last hour"),
    ],
)
def test_a_change_over_the_limit_is_refused(
    preview: PreviewCounts | None, limit: int, share: float, code: str, message: str
) -> None:
    refusal = judged(preview, limit, share)
    assert getattr(refusal, "code", None) == code and message in str(refusal)
    assert moved_jobs(None) == (0, 0)


@pytest.fixture
def client(site: ApiServer) -> Iterator[httpx.Client]:
    """An API client with the local token."""
    with client_of(site) as http_client:
        yield http_client


def store_preview(decided: Database, values: dict[str, Any], totals: list[dict[str, Any]], **more: Any) -> None:
    with decided.begin() as connection:
        runs.add_done(connection, "preview", {"set": values, **more}, "ann", {"totals": totals}, 1, 1.0)


def test_the_forms_of_a_key_take_a_limit(logged_in_client: httpx.Client, decided: Database) -> None:
    address = f"/tuning/{KEY}"
    before = logged_in_client.get(f"/api/v1/config/{KEY}").json()
    value = int(before["value"] or 0) + 1
    fields: dict[str, Any] = {"csrf": csrf_of(logged_in_client.get(address).text), "version": str(before["version"])}
    fields |= {"value": str(value), "reason": "more room", "moved": "10", "percent": "50", "hours": "1"}
    for text in ("-1", "1.5", "many", "10000000001"):
        invalid = logged_in_client.post(address, data={**fields, "moved": text})
        assert invalid.status_code == 422 and "whole number" in invalid.text
    for form in (address, f"{address}/canary"):
        refusal = logged_in_client.post(form, data=fields)
        assert refusal.status_code == 409 and "not previewed" in refusal.text and 'value="10"' in refusal.text
    store_preview(decided, {KEY: value}, TOTALS)
    for form, moved in ((address, "41"), (f"{address}/canary", "20")):
        refusal = logged_in_client.post(form, data={**fields, "moved": moved})
        assert refusal.status_code == 409 and "42 of 100 jobs" in refusal.text
    assert logged_in_client.get(f"/api/v1/config/{KEY}").json()["value"] == before["value"]
    assert logged_in_client.post(address, data={**fields, "moved": "42"}).status_code == 303
    page = logged_in_client.get(address).text
    assert "42 of 100 jobs move, at most 42" in page
    assert "Refused, as more jobs would move than may" in page and "50.0 % of the tasks" in page
    now = str(logged_in_client.get(f"/api/v1/config/{KEY}").json()["version"])
    rollback_fields = {"csrf": fields["csrf"], "version": now, "reason": "enough"}
    assert logged_in_client.post(f"{address}/back", data=rollback_fields).status_code == 303


def test_the_api_takes_a_limit_and_records_refusals(client: httpx.Client, decided: Database) -> None:
    value = int(client.get(f"/api/v1/config/{KEY}").json()["value"] or 0) + 2
    request = {"value": str(value), "reason": "less waiting", "may_move": 41}
    store_preview(decided, {KEY: value}, TOTALS)
    refusal = client.put(f"/api/v1/config/{KEY}", json=request)
    assert (refusal.status_code, refusal.json()["code"]) == (409, "too_many_jobs_move")
    record = client.get("/api/v1/config/refused", params={"key": KEY}).json()["items"][0]
    assert (record["value"], record["jobs_moved"], record["jobs"], record["most_moved"]) == (value, 42, 100, 41)
    assert (record["attempt"], record["share"], record["code"]) == ("set", 1.0, "too_many_jobs_move")
    assert record["reason"] == "less waiting" and record["editor"] and record["run"] > 0
    assert client.get("/api/v1/config/refused", params={"key": "NQUEUED_SAT_CAP"}).json()["items"] == []
    # the newest preview of exactly these keys and values counts
    store_preview(decided, {KEY: value}, FEWER)
    store_preview(decided, {KEY: value, "NQUEUED_SAT_CAP": 5}, TOTALS)
    change = client.put(f"/api/v1/config/{KEY}", json=request)
    assert change.status_code == 200, change.text
    assert "5 of 100 jobs move, at most 41" in client.get("/api/v1/config/history").json()["items"][0]["reason"]
    store_preview(decided, {KEY: value + 1}, FEWER)
    assert client.put(f"/api/v1/config/{KEY}", json={**request, "value": value + 2}).json()["code"] == "not_previewed"


def test_a_canary_by_the_api_takes_a_limit(client: httpx.Client, decided: Database) -> None:
    values = {KEY: 77, "NQUEUED_SAT_CAP": 5}
    request = {"values": values, "share": 0.5, "for_s": 60, "reason": "try", "may_move": 20}
    store_preview(decided, values, TOTALS)
    refusal = client.post("/api/v1/canaries", json=request)
    assert (refusal.status_code, refusal.json()["code"]) == (409, "too_many_jobs_move")
    records = client.get("/api/v1/config/refused", params={"limit": 2}).json()["items"]
    assert {record["key"] for record in records} == set(values)
    assert {(record["attempt"], record["share"], record["jobs_moved"]) for record in records} == {("canary", 0.5, 21)}
