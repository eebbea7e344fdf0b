"""Pages, the API and commands agree."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from typing import Any, NamedTuple

import httpx
import pytest

from broker.store.connection.database import Database
from broker.web.formats import gigabytes, shown
from tests.cli.commands import Command, runner
from tests.web.test_other_pages import A_POOL, POOL, figures

OF_THE_MOMENT = ("now", "compared_with")
"""Fields that change by themselves between two requests."""


class Case(NamedTuple):
    """One kind of line.

    Attributes:
        route: route of the API below ``/api/v1``.
        items: field of the answer that holds the lines.
        command: command that prints the same lines.
        page: page with a row for each line.
        names: fields of a line, or of an object in it, in column order.
    """

    route: str
    items: str
    command: tuple[str, ...]
    page: str
    names: tuple[str, ...]


CASES = (
    Case("queues", "queues", ("queues",), "/queues", ("queue", "considered", "chosen", "placed")),
    Case("tasks", "tasks", ("tasks",), "/tasks", ("task.jeditaskid", "task.status", "outcome", "main_code", "jobs")),
    Case("reasons", "lines", ("reasons",), "/reasons", ("brokerage", "main_code", "tasks", "chunks", "chunks_before")),
    Case(
        "nuclei", "nuclei", ("nucleus",), "/nuclei",
        ("nucleus", "role", "state", "free_gb", "considered", "candidate", "collected"),
    ),
    Case(
        "nuclei/ALPHA", "links", ("nucleus", "ALPHA"), "/nuclei/ALPHA",
        ("source", "nucleus", "queued_files", "cap_files", "closeness"),
    ),
    Case("links", "links", ("links",), "/links", ("source", "nucleus", "queued_files", "cap_files", "mbps_1d")),
    Case(
        "shares", "shares", ("shares",), "/shares",
        ("gshare", "running_hs06", "queued_hs06", "running_jobs", "queued_jobs"),
    ),
    Case("users/prodsys", "caps", ("user", "prodsys"), "/users/prodsys", ("figure", "key")),
    Case("users/prodsys", "tasks", ("user", "prodsys"), "/users/prodsys", ("task.jeditaskid", "outcome", "jobs")),
)  # fmt: skip


@pytest.fixture
def broker(decided: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands on the database of the page."""
    return runner(capsys, "--db", decided.url)


def printed(broker: Command, *arguments: str) -> list[dict[str, Any]]:
    """The objects printed by a command."""
    result = broker(*arguments, "--json")
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def comparable(document: Any) -> Any:
    """The document with times written alike: ``Z`` for ``+00:00``."""
    return json.loads(json.dumps(document).replace('+00:00"', 'Z"'))


def field(line: dict[str, Any], name: str) -> Any:
    """A field of a line; a dotted name reads a field of an object in it."""
    value: Any = line
    for part in name.split("."):
        value = value[part]
    return value


def texts(page: httpx.Response) -> list[str]:
    """The rows of all tables of a page, without markup."""
    assert page.status_code == 200, page.text
    return [f" {unescape(figures(row.partition('</tr>')[0]))} " for row in page.text.split("<tr")[1:]]


def holds(row: str, values: Sequence[Any]) -> bool:
    """Whether a row contains the values as words, in order; missing values are skipped.

    Task numbers have no thousands separator, other numbers do.
    """
    place = 0
    for value in values:
        words = {value} if isinstance(value, str | None) else {shown(value), str(value)}
        if not value and value != 0:
            continue
        ends = [start + len(word) + 1 for word in words if (start := row.find(f" {word} ", place)) >= 0]
        if not ends:
            return False
        place = min(ends)
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.page} {case.items}")
def test_page_api_and_command_agree(logged_in_client: httpx.Client, broker: Command, case: Case) -> None:
    answer = logged_in_client.get(f"/api/v1/{case.route}").json()
    lines = comparable(answer[case.items])
    objects = comparable(printed(broker, *case.command))
    if len(objects) == 1 and case.items in objects[0]:
        whole = {name: value for name, value in comparable(answer).items() if name not in OF_THE_MOMENT}
        assert {name: value for name, value in objects[0].items() if name not in OF_THE_MOMENT} == whole
    else:
        assert objects == lines
    rows = texts(logged_in_client.get(case.page))
    assert lines
    for line in lines:
        values = [gigabytes(field(line, name)) if name.endswith("_gb") else field(line, name) for name in case.names]
        assert any(holds(row, values) for row in rows), (values, rows)


def test_the_rules_of_a_brokerage(logged_in_client: httpx.Client, broker: Command) -> None:
    lines = logged_in_client.get("/api/v1/rules/production_job").json()["rules"]
    objects = printed(broker, "rules", "production_job")
    page = logged_in_client.get("/rules").text
    section = page.partition("<h2>production_job</h2>")[2].partition("</section>")[0]
    rows = [f" {unescape(figures(row))} " for row in section.split("<tr")[2:]]
    names = ("position", "rule", "code", "title", "keys", "provenance")
    judging = [{name: line[name] for name in names} for line in lines if line["position"] <= len(objects)]
    assert [{name: rule[name] for name in names} for rule in objects] == judging
    for line, row in zip(lines, rows, strict=True):
        assert holds(row, [line["position"], line["rule"], line["code"], line["title"], line["rejections_24h"]]), row


def test_a_pool(logged_in_client: httpx.Client, broker: Command, decided: Database) -> None:
    with decided.begin() as connection:
        connection.execute(A_POOL, {"pool": POOL})
    pool = comparable(logged_in_client.get(f"/api/v1/pools/{POOL}").json())
    (shown_pool,) = comparable(printed(broker, "pool", "show", POOL))
    (listed_pool,) = comparable(printed(broker, "pool", "list"))
    names = ("pool_id", "vo", "canonical", "created_at", "last_used_at", "refreshed_at", "waiting_jobs", "tasks")
    for item in (shown_pool, listed_pool):
        assert {name: item[name] for name in names} == {name: pool[name] for name in names}
    assert len(pool["queues"]) == len(shown_pool["queues"]) == listed_pool["queue_count"]
    page = figures(logged_in_client.get(f"/pools/{POOL}").text)
    assert f"Pool {POOL}" in page and pool["canonical"] in page
    assert f"VO {pool['vo']} Waiting jobs {pool['waiting_jobs']} Tasks {pool['tasks']}" in page


@pytest.mark.parametrize(
    ("address", "filters", "items"),
    [("/links", {"nucleus": "ALPHA"}, "links"), ("/tasks", {"nucleus": "ALPHA"}, "tasks")],
)
def test_the_next_page_of_a_list_keeps_its_filters(
    logged_in_client: httpx.Client, address: str, filters: dict[str, str], items: str
) -> None:
    whole = logged_in_client.get(f"/api/v1{address}", params=filters).json()
    assert len(whole[items]) == whole["total"] > 1
    first = logged_in_client.get(address, params={**filters, "limit": 1})
    next_link = re.search(r'<a rel="next" href="([^"]+)"', first.text)
    assert next_link is not None
    on_page = logged_in_client.get(unescape(next_link[1]), headers={"Accept": "application/json"}).json()
    params = {**filters, "limit": 1, "after": json_of(logged_in_client, address, {**filters, "limit": 1})["next_after"]}
    answer = logged_in_client.get(f"/api/v1{address}", params=params).json()
    assert on_page[items] == answer[items] == whole[items][1:2] and on_page["total"] == whole["total"]


def json_of(client: httpx.Client, address: str, params: dict[str, Any]) -> dict[str, Any]:
    """A page as JSON."""
    document: dict[str, Any] = client.get(address, params=params, headers={"Accept": "application/json"}).json()
    return document


def test_an_invalid_cursor_of_links_is_refused(logged_in_client: httpx.Client) -> None:
    for address in ("/links", "/api/v1/links"):
        assert logged_in_client.get(address, params={"after": "here"}).status_code == 400
