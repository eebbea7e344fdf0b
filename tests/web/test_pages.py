"""Every page is complete and small, has the right headers, and agrees with the API."""

from __future__ import annotations

import re

import httpx
import pytest
from markupsafe import escape

from broker.api.server import ApiServer
from broker.decisions.answers.known_reasons import known_reasons
from broker.store.connection.database import Database
from tests.brokerages.small_grid import TASK

PAGES = [
    ("/", None),
    ("/tasks", "/tasks"),
    (f"/tasks/{TASK}", None),
    (f"/tasks/{TASK + 2}", None),
    (f"/tasks/{TASK + 2}/why-not/ALPHA_MCORE", f"/tasks/{TASK + 2}/why-not/ALPHA_MCORE"),
    ("/queues", None),
    ("/queues/ALPHA_MCORE", "/queues/ALPHA_MCORE"),
    ("/queues/ALPHA_MCORE/MCORE", "/queues/ALPHA_MCORE"),
    ("/nuclei", "/nuclei"),
    ("/links", "/links"),
    ("/shares", "/shares"),
    ("/quality", "/quality"),
    ("/map", None),
    ("/rules", None),
    ("/rules/memory_max", None),
    ("/reasons/lowmemory", None),
    ("/reasons/low_weight", None),
    ("/glossary", None),
    ("/docs", None),
    ("/docs/list_alarms", None),
    ("/docs/submit_task", None),
    ("/tuning", None),
    ("/tuning/NQUEUED_SAT_CAP", None),
    ("/simulations", None),
    ("/service", None),
]
LARGEST_BYTES = 150_000


@pytest.mark.parametrize("address", [page for page, _ in PAGES])
def test_a_page_is_complete_small_and_loads_nothing_from_elsewhere(stranger: httpx.Client, address: str) -> None:
    answer = stranger.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert len(answer.content) < LARGEST_BYTES
    nonce = re.search(r"script-src 'nonce-([^']+)'", answer.headers["content-security-policy"])
    assert nonce is not None and f'nonce="{nonce[1]}"' in answer.text
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.text.count("<h1>") == 1 and '<main id="main"' in answer.text and 'lang="en"' in answer.text
    assert answer.text.count("<table") == answer.text.count("<caption>")
    assert not re.search(r"""\s(?:style|on\w+)=["']|javascript:""", answer.text)
    sources = re.findall(r'<(?:link|script|img)[^>]+(?:href|src)="([^"]+)"', answer.text)
    assert sources and all(source.startswith("/static/") for source in sources)
    for source in sources:
        assert stranger.get(source).headers["cache-control"].endswith("immutable")


@pytest.mark.parametrize(("page", "route"), [pair for pair in PAGES if pair[1]])
def test_a_page_as_json_agrees_with_the_api(stranger: httpx.Client, page: str, route: str) -> None:
    page_answer = stranger.get(
        page, headers={"Accept": "application/json"}, params={"limit": 100} if page == "/tasks" else {}
    )
    api_answer = stranger.get(f"/api/v1{route}", params={"limit": 200} if page == "/links" else {})
    first, second = page_answer.json(), api_answer.json()
    assert api_answer.status_code == 200 and first.pop("now") <= second.pop("now")
    for line in first.get("answers", ()):
        assert line.pop("every_rule")
    for line in second.get("answers", ()):
        line.pop("every_rule")
    assert first == second
    assert stranger.get(page, params={"format": "json"}).headers["content-type"] == "application/json"


def test_the_figures_of_a_page_agree_with_the_api(stranger: httpx.Client) -> None:
    answer = stranger.get("/api/v1/tasks").json()
    page = stranger.get("/tasks").text
    assert f"{answer['total']} tasks match" in page
    for line in answer["tasks"]:
        assert f'href="/tasks/{line["task"]["jeditaskid"]}"' in page
        assert str(line["main_code"] or line["reason"]) in page


def test_the_page_of_a_reason_states_the_fault_before_the_rule(stranger: httpx.Client) -> None:
    page = stranger.get("/reasons/shortwalltime").text
    wrong, cure = "The job runs longer than the queue allows.", "<code>nEventsPerJob</code>"
    places = [page.index(text) for text in (wrong, cure, "The expected walltime is not longer than the queue allows")]
    assert places == sorted(places) and "Who can act: whoever submitted the work." in page


@pytest.mark.parametrize("code", ["disk", "status"])
def test_a_code_of_two_rules_shows_both_meanings(stranger: httpx.Client, code: str) -> None:
    page = stranger.get(f"/reasons/{code}").text
    for known in known_reasons()[code]:
        assert str(escape(known.reason.wrong)) in page and known.giver in page


@pytest.mark.slow
def test_every_code_has_its_page(stranger: httpx.Client) -> None:
    codes = [*known_reasons(), "unknown_pilots", "task_status_done", "task_cloud_DE"]
    answers = {code: stranger.get(f"/reasons/{code}") for code in codes}
    assert {code: answer.status_code for code, answer in answers.items() if answer.status_code != 200} == {}
    for code, meanings in known_reasons().items():
        assert str(escape(meanings[0].reason.wrong)) in answers[code].text, code


@pytest.mark.parametrize(
    "address",
    ["/nothing", "/tasks/1", "/queues/NOWHERE", "/reasons/no_such", "/reasons/unknown_rule_x", "/tuning/NO_KEY"],
)
def test_a_missing_page_is_an_error_page(stranger: httpx.Client, address: str) -> None:
    answer = stranger.get(address)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html") and "Overview" in answer.text
    assert (
        stranger.get(address, headers={"Accept": "application/json"})
        .headers["content-type"]
        .startswith("application/problem+json")
    )


def test_the_code_of_a_weight_has_a_page_and_a_step_is_not_linked(stranger: httpx.Client) -> None:
    page = stranger.get("/reasons/cpu_level")
    assert page.status_code == 200 and "rejects nothing" in page.text
    readers = stranger.get("/tuning/MAX_PRIO_TO_BOOTSTRAP").text
    assert "bootstrap" in readers and "/reasons/bootstrap" not in readers
    assert 'href="/reasons/link_unusable"' in stranger.get("/tuning/NQUEUED_SAT_CAP").text


def test_each_page_has_a_new_nonce(stranger: httpx.Client) -> None:
    policies = {stranger.get("/").headers["content-security-policy"] for _ in range(3)}
    assert len(policies) == 3


@pytest.mark.slow
def test_a_repeated_page_has_the_same_size(site: ApiServer, stranger: httpx.Client) -> None:
    sizes = {len(stranger.get("/glossary").content) for _ in range(20)}
    assert len(sizes) == 1


def test_the_page_of_a_queue_names_its_held_nodes(stranger: httpx.Client, decided: Database) -> None:
    address, line = "/queues/ALPHA_MCORE", "No jobs go to bad.node until"
    assert line not in stranger.get(address).text
    with decided.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.held_nodes VALUES ('ALPHA_MCORE', 'bad.node', now() + interval '99 years', 7, 8, 2)"
        )
    try:
        assert line in stranger.get(address).text and "7 of 8 jobs of 2 tasks failed" in stranger.get(address).text
        assert "nodes_held" in stranger.get("/api/v1/alarms").text and "bad.node" in stranger.get("/alarms").text
    finally:
        with decided.begin() as connection:
            connection.exec_driver_sql("TRUNCATE broker.held_nodes")
