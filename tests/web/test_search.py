"""What is found for some letters, lists as CSV, and the lists that lead to pages of single things."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import pytest

from broker.web.csv_lists import csv_text

pytestmark = pytest.mark.slow

JSON = {"Accept": "application/json"}


def hits(client: httpx.Client, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/search", params={"q": text}, headers=JSON).json()["hits"]
    return found


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
def test_a_name_is_found_by_a_part_of_it_and_with_a_typing_error(
    stranger: httpx.Client, text: str, kind: str, name: str
) -> None:
    found = [one for one in hits(stranger, text) if (one["kind"], one["name"]) == (kind, name)]
    assert len(found) == 1
    page = stranger.get("/search", params={"q": text}, follow_redirects=True).text
    assert f">{name}</a>" in page or f"<h1>Rule {name}" in page


def test_a_number_and_a_whole_name_lead_to_their_page_at_once(stranger: httpx.Client) -> None:
    task = stranger.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["jeditaskid"]
    job = stranger.get("/api/v1/jobs?limit=1").json()["jobs"][0]["pandaid"]
    for text, address in ((task, f"/tasks/{task}"), (job, f"/jobs/{job}"), ("alpha_mcore", "/queues/ALPHA_MCORE")):
        answer = stranger.get("/search", params={"q": str(text)})
        assert (answer.status_code, answer.headers.get("location")) == (303, address)


@pytest.mark.parametrize("text", ["", "0", "9" * 30, "-1", "%00", "zzzzzzzzzzzz", "<script>"])
def test_what_nothing_is_named_like_is_said(stranger: httpx.Client, text: str) -> None:
    answer = stranger.get("/search", params={"q": text})
    assert answer.status_code == 200 and "<script>" not in answer.text.replace("<script type", "")


def test_names_of_people_are_found_by_those_who_are_logged_in(stranger: httpx.Client, somebody: httpx.Client) -> None:
    assert [one for one in hits(somebody, "prodsys") if one["kind"] == "user"]
    assert not [one for one in hits(stranger, "prodsys") if one["kind"] in ("user", "task")]
    name = somebody.get("/api/v1/tasks?limit=1").json()["tasks"][0]["task"]["taskname"]
    assert [one for one in hits(somebody, name[:-1].upper()) if one["kind"] == "task"]


@pytest.mark.parametrize(
    ("page", "column"),
    [("/tasks", "task.jeditaskid"), ("/queues", "queue"), ("/links", "source"), ("/jobs", "pandaid")],
)
def test_a_list_as_csv_has_what_the_list_as_json_has(stranger: httpx.Client, page: str, column: str) -> None:
    shown = stranger.get(page).text
    assert f'href="{page}?format=csv"' in shown and f'href="{page}?format=json"' in shown
    answer = stranger.get(page, params={"format": "csv"})
    assert (
        answer.headers["content-type"] == "text/csv; charset=utf-8"
        and "attachment" in answer.headers["content-disposition"]
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    told = stranger.get(page, headers=JSON).json()
    items = told["queues"]["queues"] if page == "/queues" else told[page[1:]]
    assert (
        [row[column] for row in rows]
        == [str(one["task"]["jeditaskid"] if page == "/tasks" else one[column]) for one in items]
        != []
    )


def test_csv_names_nobody_to_strangers(stranger: httpx.Client, somebody: httpx.Client) -> None:
    assert "prodsys" in somebody.get("/tasks?format=csv").text
    assert "prodsys" not in stranger.get("/tasks?format=csv").text


def test_a_cell_is_no_formula_and_a_missing_field_is_empty() -> None:
    rows = [{"a": "=1+1", "b": {"c": [1, 2]}}, {"a": -1, "d": None}]
    assert csv_text(rows) == "a,b.c,d\r\n'=1+1,1 2,\r\n-1,,\r\n"


@pytest.mark.parametrize("page", ["/pools", "/runs", "/sources", "/pins", "/reasons"])
def test_a_list_is_there_when_it_is_empty_too(stranger: httpx.Client, page: str) -> None:
    assert stranger.get(page).status_code == 200 and stranger.get(page, headers=JSON).status_code == 200


def test_users_are_listed_to_those_who_are_logged_in(stranger: httpx.Client, somebody: httpx.Client) -> None:
    assert stranger.get("/users").status_code == 401
    told = somebody.get("/users", headers=JSON).json()["users"]
    page = somebody.get("/users").text
    assert told and all(f">{one['user']}</a>" in page for one in told if one["user"].isalnum())
    assert sum(one["tasks"] for one in told) == somebody.get("/api/v1/tasks").json()["total"]
