"""What a page shows, what the API answers and what the command prints are the same."""

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
"""Fields that go on by themselves between two questions."""


class Case(NamedTuple):
    """One kind of lines.

    Attributes:
        route: of the API, below ``/api/v1``.
        items: its field with the lines.
        command: prints the same, one line or one answer a line.
        page: has a row for each line.
        names: fields of a line, or of an object in it, in the order of the columns.
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
    """The objects that a command prints."""
    found = broker(*arguments, "--json")
    assert found.status == 0, found.err
    return [json.loads(line) for line in found.out.splitlines()]


def comparable(document: Any) -> Any:
    """Times written alike: ``Z`` is ``+00:00``."""
    return json.loads(json.dumps(document).replace('+00:00"', 'Z"'))


def field(line: dict[str, Any], name: str) -> Any:
    """A field of a line; behind a point, of an object in it."""
    value: Any = line
    for part in name.split("."):
        value = value[part]
    return value


def texts(page: httpx.Response) -> list[str]:
    """The rows of all tables of a page, without marks."""
    assert page.status_code == 200, page.text
    return [f" {unescape(figures(row.partition('</tr>')[0]))} " for row in page.text.split("<tr")[1:]]


def holds(row: str, values: Sequence[Any]) -> bool:
    """Whether a row has the values as words, one behind the other; what a line does not have is no word.

    Numbers of tasks have no sign between thousands, other numbers have.
    """
    place = 0
    for value in values:
        words = {value} if isinstance(value, str | None) else {shown(value), str(value)}
        if not value and value != 0:
            continue
        ends = [found + len(word) + 1 for word in words if (found := row.find(f" {word} ", place)) >= 0]
        if not ends:
            return False
        place = min(ends)
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.page} {case.items}")
def test_page_api_and_command_say_the_same(somebody: httpx.Client, broker: Command, case: Case) -> None:
    answer = somebody.get(f"/api/v1/{case.route}").json()
    lines = comparable(answer[case.items])
    said = comparable(printed(broker, *case.command))
    if len(said) == 1 and case.items in said[0]:
        whole = {name: value for name, value in comparable(answer).items() if name not in OF_THE_MOMENT}
        assert {name: value for name, value in said[0].items() if name not in OF_THE_MOMENT} == whole
    else:
        assert said == lines
    rows = texts(somebody.get(case.page))
    assert lines
    for line in lines:
        values = [gigabytes(field(line, name)) if name.endswith("_gb") else field(line, name) for name in case.names]
        assert any(holds(row, values) for row in rows), (values, rows)


def test_the_rules_of_a_brokerage(somebody: httpx.Client, broker: Command) -> None:
    lines = somebody.get("/api/v1/rules/production_job").json()["rules"]
    said = printed(broker, "rules", "production_job")
    page = somebody.get("/rules").text
    section = page.partition("<h2>production_job</h2>")[2].partition("</section>")[0]
    rows = [f" {unescape(figures(row))} " for row in section.split("<tr")[2:]]
    names = ("position", "rule", "code", "title", "keys", "provenance")
    judging = [{name: line[name] for name in names} for line in lines if line["position"] <= len(said)]
    assert [{name: one[name] for name in names} for one in said] == judging
    for line, row in zip(lines, rows, strict=True):
        assert holds(row, [line["position"], line["rule"], line["code"], line["title"], line["rejections_24h"]]), row


def test_a_pool(somebody: httpx.Client, broker: Command, decided: Database) -> None:
    with decided.begin() as connection:
        connection.execute(A_POOL, {"pool": POOL})
    found = comparable(somebody.get(f"/api/v1/pools/{POOL}").json())
    (said,) = comparable(printed(broker, "pool", "show", POOL))
    (listed,) = comparable(printed(broker, "pool", "list"))
    names = ("pool_id", "vo", "canonical", "created_at", "last_used_at", "refreshed_at", "waiting_jobs", "tasks")
    for one in (said, listed):
        assert {name: one[name] for name in names} == {name: found[name] for name in names}
    assert len(found["queues"]) == len(said["queues"]) == listed["queue_count"]
    page = figures(somebody.get(f"/pools/{POOL}").text)
    assert f"Pool {POOL}" in page and found["canonical"] in page
    assert f"VO {found['vo']} Waiting jobs {found['waiting_jobs']} Tasks {found['tasks']}" in page


@pytest.mark.parametrize(
    ("address", "filters", "items"),
    [("/links", {"nucleus": "ALPHA"}, "links"), ("/tasks", {"nucleus": "ALPHA"}, "tasks")],
)
def test_the_next_page_of_a_list_keeps_its_filters(
    somebody: httpx.Client, address: str, filters: dict[str, str], items: str
) -> None:
    whole = somebody.get(f"/api/v1{address}", params=filters).json()
    assert len(whole[items]) == whole["total"] > 1
    first = somebody.get(address, params={**filters, "limit": 1})
    following = re.search(r'<a rel="next" href="([^"]+)"', first.text)
    assert following is not None
    on_page = somebody.get(unescape(following[1]), headers={"Accept": "application/json"}).json()
    asked = {**filters, "limit": 1, "after": json_of(somebody, address, {**filters, "limit": 1})["next_after"]}
    told = somebody.get(f"/api/v1{address}", params=asked).json()
    assert on_page[items] == told[items] == whole[items][1:2] and on_page["total"] == whole["total"]


def json_of(client: httpx.Client, address: str, params: dict[str, Any]) -> dict[str, Any]:
    """A page as JSON."""
    found: dict[str, Any] = client.get(address, params=params, headers={"Accept": "application/json"}).json()
    return found


def test_a_page_of_links_behind_no_place_is_refused(somebody: httpx.Client) -> None:
    for address in ("/links", "/api/v1/links"):
        assert somebody.get(address, params={"after": "here"}).status_code == 400
