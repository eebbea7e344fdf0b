"""The search, lists as CSV, and lists that lead to detail pages."""

from __future__ import annotations

import csv
import io
from html import escape
from typing import Any

import httpx
import pytest

from broker.web.csv_lists import csv_text

pytestmark = pytest.mark.slow

JSON = {"Accept": "application/json"}


def hits(client: httpx.Client, text: str) -> list[dict[str, Any]]:
    all_hits: list[dict[str, Any]] = client.get("/search", params={"q": text}, headers=JSON).json()["hits"]
    return all_hits


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("ALPHA_MCOR", "queue", "ALPHA_MCORE"),
        ("alpha_mcroe", "queue", "ALPHA_MCORE"),
        ("lowmem", "reason", "lowmemory"),
        ("NQUEUED_SAT_CA", "key", "NQUEUED_SAT_CAP"),
        ("memory_max", "rule", "memory_max"),
    ],
)
def test_a_name_is_found_by_a_part_or_with_a_typo(stranger: httpx.Client, text: str, kind: str, name: str) -> None:
    matches = [hit for hit in hits(stranger, text) if (hit["kind"], hit["name"]) == (kind, name)]
    assert len(matches) == 1
    page = stranger.get("/search", params={"q": text}, follow_redirects=True).text
    assert f">{name}</a>" in page or f"<h1>Rule {name}" in page


def test_a_number_or_an_exact_name_redirects_to_its_page(stranger: httpx.Client) -> None:
    task = stranger.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["jeditaskid"]
    job = stranger.get("/api/v1/jobs?limit=1").json()["jobs"][0]["pandaid"]
    for text, address in ((task, f"/tasks/{task}"), (job, f"/jobs/{job}"), ("alpha_mcore", "/queues/ALPHA_MCORE")):
        answer = stranger.get("/search", params={"q": str(text)})
        assert (answer.status_code, answer.headers.get("location")) == (303, address)


@pytest.mark.parametrize("text", ["", "0", "9" * 30, "-1", "%00", "zzzzzzzzzzzz", "<script>"])
def test_a_search_without_hits_is_answered(stranger: httpx.Client, text: str) -> None:
    answer = stranger.get("/search", params={"q": text})
    assert answer.status_code == 200 and "<script>" not in answer.text.replace("<script type", "")
    assert hits(stranger, text) == [] and "Nothing has a name like that." in answer.text
    assert f"<h1>Search{text and ': '}{escape(text)}</h1>" in answer.text


def test_finding_people_needs_a_login(stranger: httpx.Client, logged_in_client: httpx.Client) -> None:
    assert [hit for hit in hits(logged_in_client, "prodsys") if hit["kind"] == "user"]
    assert not [hit for hit in hits(stranger, "prodsys") if hit["kind"] in ("user", "task")]
    name = logged_in_client.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["taskname"]
    assert [hit for hit in hits(logged_in_client, name[:-1].upper()) if hit["kind"] == "task"]


@pytest.mark.parametrize(
    ("page", "column"),
    [("/tasks", "task.jeditaskid"), ("/queues", "queue"), ("/links", "source"), ("/jobs", "pandaid")],
)
def test_a_list_as_csv_agrees_with_its_json(stranger: httpx.Client, page: str, column: str) -> None:
    html = stranger.get(page).text
    assert f'href="{page}?format=csv"' in html and f'href="{page}?format=json"' in html
    answer = stranger.get(page, params={"format": "csv"})
    assert (
        answer.headers["content-type"] == "text/csv; charset=utf-8"
        and "attachment" in answer.headers["content-disposition"]
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    document = stranger.get(page, headers=JSON).json()
    items = document["queues"]["queues"] if page == "/queues" else document[page[1:]]
    assert (
        [row[column] for row in rows]
        == [str(item["task"]["jeditaskid"] if page == "/tasks" else item[column]) for item in items]
        != []
    )


def test_csv_hides_names_from_strangers(stranger: httpx.Client, logged_in_client: httpx.Client) -> None:
    assert "prodsys" in logged_in_client.get("/tasks?format=csv").text
    assert "prodsys" not in stranger.get("/tasks?format=csv").text


def test_a_cell_is_no_formula_and_a_missing_field_is_empty() -> None:
    rows = [{"a": "=1+1", "b": {"c": [1, 2]}}, {"a": -1, "d": None}]
    assert csv_text(rows) == "a,b.c,d\r\n'=1+1,1 2,\r\n-1,,\r\n"


@pytest.mark.parametrize("page", ["/pools", "/runs", "/sources", "/pins", "/reasons"])
def test_an_empty_list_has_a_page_too(stranger: httpx.Client, page: str) -> None:
    assert stranger.get(page).status_code == 200 and stranger.get(page, headers=JSON).status_code == 200


def test_the_list_of_users_needs_a_login(stranger: httpx.Client, logged_in_client: httpx.Client) -> None:
    assert stranger.get("/users").status_code == 401
    users = logged_in_client.get("/users", headers=JSON).json()["users"]
    page = logged_in_client.get("/users").text
    assert users and all(f">{user['user']}</a>" in page for user in users if user["user"].isalnum())
    assert sum(user["tasks"] for user in users) == logged_in_client.get("/api/v1/tasks").json()["total"]
