"""A change that moves more jobs than whoever makes it allows is refused, and stays on record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import Counted, judged
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
    ("run", "most", "share", "said"),
    [
        (7, 42, 1.0, "run 7: 42 of 100 jobs move, at most 42"),
        (7, 4, 0.1, "run 7: 4 of 100 jobs move, at most 4"),
        (None, 50, 1.0, "previewed: 42 of 100 jobs move, at most 50"),
    ],
)
def test_what_keeps_to_the_limit_says_so(run: int | None, most: int, share: float, said: str) -> None:
    assert judged(Counted(42, 100, run), most, share) == said


@pytest.mark.parametrize(
    ("counted", "most", "share", "code", "said"),
    [
        (Counted(42, 100, 7), 41, 1.0, "too_many_jobs_move", "run 7, moves 42 of 100 jobs; at most 41 may move"),
        (Counted(42, 100), 3, 0.1, "too_many_jobs_move", "of the chosen tasks about 4; at most 3"),
        (None, 99, 1.0, "not_previewed", "not previewed within the last hour"),
    ],
)
def test_what_does_not_is_refused(counted: Counted | None, most: int, share: float, code: str, said: str) -> None:
    refused = judged(counted, most, share)
    assert getattr(refused, "code", None) == code and said in str(refused)
    assert moved_jobs(None) == (0, 0)


@pytest.fixture
def client(site: ApiServer) -> Iterator[httpx.Client]:
    """A program with the token of the machine."""
    with client_of(site) as found:
        yield found


def previewed(decided: Database, values: dict[str, Any], totals: list[dict[str, Any]], **more: Any) -> None:
    with decided.begin() as connection:
        runs.add_done(connection, "preview", {"set": values, **more}, "ann", {"totals": totals}, 1, 1.0)


def test_the_forms_of_a_key_take_a_limit(somebody: httpx.Client, decided: Database) -> None:
    address = f"/tuning/{KEY}"
    before = somebody.get(f"/api/v1/config/{KEY}").json()
    value = int(before["value"] or 0) + 1
    fields: dict[str, Any] = {"csrf": csrf_of(somebody.get(address).text), "version": str(before["version"])}
    fields |= {"value": str(value), "reason": "more room", "moved": "10", "percent": "50", "hours": "1"}
    for text in ("-1", "1.5", "many", "10000000001"):
        wrong = somebody.post(address, data={**fields, "moved": text})
        assert wrong.status_code == 422 and "whole number" in wrong.text
    for form in (address, f"{address}/canary"):
        refused = somebody.post(form, data=fields)
        assert refused.status_code == 409 and "not previewed" in refused.text and 'value="10"' in refused.text
    previewed(decided, {KEY: value}, TOTALS)
    for form, moved in ((address, "41"), (f"{address}/canary", "20")):
        refused = somebody.post(form, data={**fields, "moved": moved})
        assert refused.status_code == 409 and "42 of 100 jobs" in refused.text
    assert somebody.get(f"/api/v1/config/{KEY}").json()["value"] == before["value"]
    assert somebody.post(address, data={**fields, "moved": "42"}).status_code == 303
    page = somebody.get(address).text
    assert "42 of 100 jobs move, at most 42" in page
    assert "Refused, as more jobs would move than may" in page and "50.0 % of the tasks" in page
    now = str(somebody.get(f"/api/v1/config/{KEY}").json()["version"])
    back = {"csrf": fields["csrf"], "version": now, "reason": "enough"}
    assert somebody.post(f"{address}/back", data=back).status_code == 303


def test_the_api_takes_a_limit_and_keeps_what_it_refused(client: httpx.Client, decided: Database) -> None:
    value = int(client.get(f"/api/v1/config/{KEY}").json()["value"] or 0) + 2
    asked = {"value": str(value), "reason": "less waiting", "may_move": 41}
    previewed(decided, {KEY: value}, TOTALS)
    refused = client.put(f"/api/v1/config/{KEY}", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_jobs_move")
    noted = client.get("/api/v1/config/refused", params={"key": KEY}).json()["items"][0]
    assert (noted["value"], noted["jobs_moved"], noted["jobs"], noted["most_moved"]) == (value, 42, 100, 41)
    assert (noted["attempt"], noted["share"], noted["code"]) == ("set", 1.0, "too_many_jobs_move")
    assert noted["reason"] == "less waiting" and noted["editor"] and noted["run"] > 0
    assert client.get("/api/v1/config/refused", params={"key": "NQUEUED_SAT_CAP"}).json()["items"] == []
    # the newest preview of the same values counts, not one of another value or of other keys beside it
    previewed(decided, {KEY: value}, FEWER)
    previewed(decided, {KEY: value, "NQUEUED_SAT_CAP": 5}, TOTALS)
    made = client.put(f"/api/v1/config/{KEY}", json=asked)
    assert made.status_code == 200, made.text
    assert "5 of 100 jobs move, at most 41" in client.get("/api/v1/config/history").json()["items"][0]["reason"]
    previewed(decided, {KEY: value + 1}, FEWER)
    assert client.put(f"/api/v1/config/{KEY}", json={**asked, "value": value + 2}).json()["code"] == "not_previewed"


def test_a_canary_by_the_api_takes_a_limit(client: httpx.Client, decided: Database) -> None:
    values = {KEY: 77, "NQUEUED_SAT_CAP": 5}
    asked = {"values": values, "share": 0.5, "for_s": 60, "reason": "try", "may_move": 20}
    previewed(decided, values, TOTALS)
    refused = client.post("/api/v1/canaries", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_jobs_move")
    noted = client.get("/api/v1/config/refused", params={"limit": 2}).json()["items"]
    assert {one["key"] for one in noted} == set(values)
    assert {(one["attempt"], one["share"], one["jobs_moved"]) for one in noted} == {("canary", 0.5, 21)}
