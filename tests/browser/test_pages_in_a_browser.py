"""All pages in a real browser: hostile names stay text, axe finds nothing serious, the live part refreshes."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.server import ApiServer
from tests.api.serving import client_of
from tests.browser.test_journeys import KEY, MENU
from tests.browser.visitor import HOSTILE, HOSTILE_SHOWN, Visitor

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def found(site: ApiServer) -> dict[str, Any]:
    """Addresses of pages about one thing, and the tasks with hostile names."""
    with client_of(site) as client:
        tasks = client.get("/api/v1/tasks", params={"limit": 200}).json()["tasks"]
    hostile = [one["task"] for one in tasks if one["task"]["taskname"] == HOSTILE]
    about = [f"/tasks/{one['jeditaskid']}" for one in hostile]
    return {"tasks": hostile, "pages": [*about, "/queues/BNL", f"/tuning/{KEY}", "/rules/memory_max"]}


def test_hostile_names_are_shown_as_text(visitor: Visitor, found: dict[str, Any]) -> None:
    visitor.log_in()
    user = next(one["username"] for one in found["tasks"] if one["username"] != "atlasprd")
    assert user == HOSTILE
    for address in ("/tasks", *(one for one in found["pages"] if one.startswith("/tasks/"))):
        visitor.open(address)
        shown = visitor.page.locator("body").inner_text()
        assert HOSTILE_SHOWN in shown and "\x1b" not in shown, address


@pytest.mark.parametrize(
    ("visitor", "addresses", "options"),
    [
        ({"color_scheme": "light"}, MENU, None),
        ({"color_scheme": "dark"}, ("/", "/tasks", "/service"), {"runOnly": ["color-contrast"]}),
    ],
    indirect=["visitor"],
    ids=["light", "dark"],
)
def test_axe_finds_nothing_serious(
    visitor: Visitor, found: dict[str, Any], addresses: tuple[str, ...], options: dict[str, Any] | None
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor.log_in()
    serious = []
    for address in (*addresses, *found["pages"]):
        visitor.open(address)
        response = Axe().run(visitor.page, options=options).response
        serious += [
            (address, one["id"], one["help"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"][:300])
            for one in response["violations"]
            if one["impact"] in SERIOUS
        ]
    assert not serious, "\n".join(map(str, serious))


def test_every_page_works_without_scripts(chromium: Any, site: ApiServer) -> None:
    context = chromium.new_context(base_url=site.url, java_script_enabled=False)
    page = context.new_page()
    for address in MENU:
        answer = page.goto(address)
        assert answer is not None and answer.ok and page.locator("h1").count() == 1
    context.close()
