"""All pages in a real browser: hostile names stay text, axe finds nothing serious, the live part refreshes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from broker.api.server import ApiServer
from broker.web.rendering import PageRoute
from tests.browser.pages import MENU
from tests.browser.visitor import HOSTILE, HOSTILE_SHOWN, Visitor

#: What is no page for people: files, data of plots, an icon, the way back from an issuer, what the search box offers.
NO_PAGES = ("/static", "/plots", "/favicon", "/login/callback", "/search/suggestions")
SERIOUS = ("serious", "critical")
#: Else axe copies style sheets into elements of its own, which the policy of the page refuses.
OPTIONS = {"preload": False}


def test_every_page_is_among_those_that_are_looked_at(site: ApiServer, found: dict[str, Any]) -> None:
    paths = [address.partition("?")[0] for address in (*MENU, *found["pages"])]
    routes = [
        route
        for route in site.app.routes
        if isinstance(route, PageRoute) and "GET" in route.methods and not route.path.startswith(NO_PAGES)
    ]
    assert len(routes) > 20
    assert [one.path for one in routes if not any(one.path_regex.match(path) for path in paths)] == []


def test_hostile_names_are_shown_as_text(visitor: Visitor, found: dict[str, Any]) -> None:
    visitor.log_in()
    user = next(one["username"] for one in found["tasks"] if one["username"] != "atlasprd")
    assert user == HOSTILE
    for address in ("/tasks", *(one for one in found["pages"] if re.fullmatch(r"/tasks/\d+", one))):
        visitor.open(address)
        shown = visitor.page.locator("body").inner_text()
        assert HOSTILE_SHOWN in shown and "\x1b" not in shown, address


def test_a_user_with_a_hostile_name_has_a_page(visitor: Visitor, found: dict[str, Any]) -> None:
    task = next(one["jeditaskid"] for one in found["tasks"] if one["username"] == HOSTILE)
    visitor.log_in()
    visitor.open(f"/tasks/{task}")
    visitor.follow("All tasks of", exact=False)
    visitor.page.wait_for_url("**/users/*")
    assert visitor.heading() == f"User {HOSTILE_SHOWN}" and str(task) in visitor.main()


@pytest.mark.parametrize(
    ("visitor", "addresses"),
    [
        ({"color_scheme": "light"}, MENU[:6]),
        ({"color_scheme": "light"}, MENU[6:]),
        ({"color_scheme": "light"}, ()),
    ],
    indirect=["visitor"],
    ids=["light", "light, the rest", "light, one thing"],
)
def test_axe_finds_nothing_serious(visitor: Visitor, found: dict[str, Any], addresses: tuple[str, ...]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor.log_in()
    serious = []
    for address in addresses or found["pages"]:
        visitor.open(address)
        if visitor.page.locator("[data-plot]").count():
            visitor.page.locator(".plot.drawn canvas").first.wait_for()
        response = Axe().run(visitor.page, options=OPTIONS).response
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


@pytest.mark.parametrize("visitor", [{"viewport": {"width": 3840, "height": 2160}}], indirect=True, ids=["4K"])
def test_on_a_large_screen_letters_are_larger_and_nothing_is_cut(visitor: Visitor) -> None:
    for address in ("/", "/queues", "/map"):
        visitor.open(address)
        size, across = visitor.page.evaluate(
            "[parseFloat(getComputedStyle(document.body).fontSize), document.documentElement.scrollWidth]"
        )
        assert size >= 20 and across <= 3840, address


def test_all_that_can_be_done_is_done_with_the_keyboard(visitor: Visitor) -> None:
    visitor.open("/queues")
    keys = visitor.page.keyboard
    keys.press("Tab")
    skip = visitor.page.locator(".skip")
    assert visitor.page.evaluate("document.activeElement.className") == "skip"
    box = skip.bounding_box()
    assert box is not None and box["x"] >= 0
    keys.press("Enter")
    visitor.page.wait_for_url("**/queues#main")
    for _ in range(200):
        keys.press("Tab")
        where = visitor.page.evaluate("document.activeElement.closest('svg a')?.getAttribute('href') ?? ''")
        if where.startswith("/queues/"):
            break
    keys.press("Enter")
    visitor.page.wait_for_url(f"**{where}")
    assert visitor.heading().startswith("Queue ")
