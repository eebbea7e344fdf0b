"""The steps of changing one key: its recent effect, a preview of an hour, a canary, and the way back."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

from broker.api.server import ApiServer
from broker.store.gdpconfig_rows import TuningEvent
from broker.tuning.pages.key_flow import lately_sentence, ways_back
from tests.api.serving import client_of
from tests.web.test_other_pages import figures as words_of

KEY, API = "NQUEUED_SAT_CAP", "/api/v1/config/NQUEUED_SAT_CAP"


def event(version: int, old: str | None, new: str | None) -> TuningEvent:
    return TuningEvent(
        version=version, published_at=datetime(2026, 8, 1, tzinfo=UTC), editor="ann", reason="r", component="c",
        key=KEY, vo="", action="set", old=old, new=new,
    )  # fmt: skip


def test_each_former_value_of_a_key_is_offered_once() -> None:
    ways = ways_back([event(4, "7", "9"), event(3, "9", "7"), event(2, "7", "9"), event(1, None, "7")], KEY)
    assert [(way["version"], way["old"]) for way in ways] == [(4, "7"), (3, "9"), (1, None)]
    assert ways_back([event(1, None, "7")], "ANOTHER") == []


def test_the_effect_of_a_key_is_the_sum_over_its_rules() -> None:
    lines = [{"rejected": 3, "decides": 1}, {"rejected": 4, "decides": 0}]
    assert lately_sentence(lines).startswith("Rules that read it rejected a candidate 7 times in 24 h")
    assert "1 chunk waits now" in lately_sentence(lines) and "No rule reads it" in lately_sentence([])


def test_the_page_of_a_key_shows_its_effect_and_rolls_back_one_key(
    logged_in_client: httpx.Client, site: ApiServer
) -> None:
    other_key = "/api/v1/config/NQUEUELIMITSITE"
    for value in (180, 170):
        with client_of(site) as client:
            assert client.put(API, json={"value": value, "reason": "links"}).is_success, value
    before = logged_in_client.get(other_key).json()["value"]
    page = logged_in_client.get(f"/tuning/{KEY}").text
    assert "Rules that read it rejected a candidate" in words_of(page) and f'action="/tuning/{KEY}/back"' in page
    assert "Decides the cycles of the last hour again" in page
    token = page.split('name="csrf" value="')[1].split('"')[0]
    version = logged_in_client.get(f"{API}").json()["version"]
    fields = {"csrf": token, "version": str(version), "reason": "too slow"}
    assert logged_in_client.post(f"/tuning/{KEY}/back", data={**fields, "reason": " "}).status_code == 422
    assert logged_in_client.post(f"/tuning/{KEY}/back", data={**fields, "version": "999999"}).status_code == 422
    assert logged_in_client.post(f"/tuning/{KEY}/back", data=fields).status_code == 303
    assert (
        logged_in_client.get(API).json()["value"] == 180 and logged_in_client.get(other_key).json()["value"] == before
    )
    assert "too slow" in logged_in_client.get(f"/tuning/{KEY}").text
    first = logged_in_client.get("/api/v1/config/history", params={"key": KEY}).json()
    oldest = min(change["version"] for change in first["items"] if change["key"] == KEY and change["old"] is None)
    assert logged_in_client.post(f"/tuning/{KEY}/back", data={**fields, "version": str(oldest)}).status_code == 303
    assert logged_in_client.get(API).json()["source"] == "default"
