"""Detail pages, the tuning forms, and rows of pages without a command."""

from __future__ import annotations

import re
import threading
import time
from html import unescape
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.web.formats import shown
from tests.brokerages.small_grid import TASK
from tests.web.test_sessions import csrf_of

KEY = "BASE_QUEUE_LENGTH_PER_PQ"
POOL = "0" * 36
DEADLINE_S = 120
A_POOL = sa.text("""
    INSERT INTO broker.submit_pools (pool_id, vo, canonical, created_at, last_used_at)
    VALUES (:pool, 'atlas', 'CPUTime = 1;', now(), now()) ON CONFLICT DO NOTHING""")


@pytest.fixture(scope="module", autouse=True)
def pool(decided: Database) -> None:
    """A SubmitPool that no queue satisfies."""
    with decided.begin() as connection:
        connection.execute(A_POOL, {"pool": POOL})


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/nuclei/ALPHA", ("Nucleus ALPHA", "Links to it")),
        ("/jobs/1", ("Job 1", "Life of the job", "ALPHA_MCORE")),
        (f"/pools/{POOL}", (f"Pool {POOL}", "CPUTime = 1;", "Queues that meet it")),
        ("/users/prodsys", ("User prodsys", f"/tasks/{TASK}")),
    ],
)
def test_a_detail_page_and_its_json_agree_with_the_api(
    logged_in_client: httpx.Client, address: str, words: tuple[str, ...]
) -> None:
    page = logged_in_client.get(address)
    assert page.status_code == 200 and all(word in page.text for word in words), page.text
    assert page.text.count("<h1>") == 1 and page.text.count("<table") == page.text.count("<caption>")
    first = logged_in_client.get(address, headers={"Accept": "application/json"}).json()
    second = logged_in_client.get(f"/api/v1{address}").json()
    assert without_time(first) == without_time(second)


def without_time(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "now"}


def test_a_value_is_set_compared_with_before_and_rolled_back(logged_in_client: httpx.Client) -> None:
    versions = [post_value(logged_in_client, value) for value in ("120", "130")]
    difference = logged_in_client.get("/tuning/diff", params={"first": versions[0], "second": versions[1]})
    assert KEY in difference.text and "120" in difference.text and "130" in difference.text
    page = logged_in_client.get("/tuning").text
    assert f"<option>{versions[0]}</option>" in page
    fields = {"csrf": csrf_of(page), "version": str(versions[0]), "reason": "was better"}
    assert logged_in_client.post("/tuning:rollback", data=fields).headers["location"] == "/tuning"
    assert logged_in_client.get(f"/api/v1/config/{KEY}").json()["value"] == 120
    assert "was better" in logged_in_client.get(f"/tuning/{KEY}").text
    refusal = logged_in_client.post("/tuning:rollback", data={**fields, "reason": " "})
    assert refusal.status_code == 422 and "needs a reason" in refusal.text


def post_value(client: httpx.Client, value: str) -> int:
    page = client.get(f"/tuning/{KEY}").text
    match = re.search(r'name="version" value="(\d+)"', page)
    assert match is not None
    fields = {"csrf": csrf_of(page), "version": match[1], "value": value, "reason": f"try {value}"}
    answer = client.post(f"/tuning/{KEY}", data=fields)
    assert answer.status_code == 303 and answer.headers["location"] == f"/tuning/{KEY}", answer.text
    return int(client.get(f"/api/v1/config/{KEY}").json()["version"])


def test_a_canary_begins_and_is_stopped(logged_in_client: httpx.Client) -> None:
    fields = {
        "csrf": csrf_of(logged_in_client.get(f"/tuning/{KEY}").text),
        "value": "140",
        "reason": "a try",
        "hours": "1",
    }
    for percent in ("0", "100", "x"):
        assert logged_in_client.post(f"/tuning/{KEY}/canary", data={**fields, "percent": percent}).status_code == 422
    assert logged_in_client.post(f"/tuning/{KEY}/canary", data={**fields, "percent": "10"}).status_code == 303
    page = logged_in_client.get("/tuning").text
    assert "runs until" in page and f"{KEY} = 140" in page and "a try" in page
    assert logged_in_client.post("/canaries:stop", data={"csrf": csrf_of(page)}).status_code == 303
    assert "runs until" not in logged_in_client.get("/tuning").text


@pytest.mark.slow
def test_a_trial_is_followed_on_its_page(logged_in_client: httpx.Client) -> None:
    fields = {"csrf": csrf_of(logged_in_client.get(f"/tuning/{KEY}").text), "value": "90"}
    answer = logged_in_client.post(f"/tuning/{KEY}/try", data=fields)
    assert answer.status_code == 303 and answer.headers["location"].startswith("/runs/"), answer.text
    deadline_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while time.monotonic() < deadline_s:
        page = logged_in_client.get(answer.headers["location"]).text
        if 'http-equiv="refresh"' not in page:
            break
        pause.wait(0.1)
    assert re.search(r'<p class="verdict">(done|failed)', page), page
    assert logged_in_client.get("/runs/999999").status_code == 404


def figures(page: str) -> str:
    """The text of a page without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.replace("<wbr>", "")))


@pytest.mark.parametrize(
    ("page", "route", "items", "names"),
    [
        ("/tuning", "config", "items", ("key", "value", "default", "unit")),
        ("/service", "service", "agents", ("agent", "cycles_24h", "failed_24h")),
        ("/jobs/1", "jobs/1", "steps", ("event", "status")),
    ],
)
def test_every_line_of_an_answer_is_a_row_of_its_page(
    logged_in_client: httpx.Client, page: str, route: str, items: str, names: tuple[str, ...]
) -> None:
    rows = [unescape(figures(row)) for row in logged_in_client.get(page).text.split("<tr")]
    lines = logged_in_client.get(f"/api/v1/{route}").json()[items]
    for line in lines:
        values = [value if isinstance(value, str) else shown(value) for value in (line[name] for name in names)]
        assert any(all(value in row for value in values if value) for row in rows), (line, values)


def test_why_not_asks_every_rule_about_one_pseudo_queue_and_links_the_others(stranger: httpx.Client) -> None:
    document = stranger.get(f"/tasks/{TASK + 2}/why-not/ALPHA_MCORE", headers={"Accept": "application/json"}).json()
    assert document["answers"][0]["every_rule"] and not any(answer["every_rule"] for answer in document["answers"][1:])
