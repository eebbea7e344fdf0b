"""All pages in a real browser: hostile names stay text, axe finds nothing serious, the keyboard is enough."""

from __future__ import annotations

import re
from typing import Any

import pytest

from broker.api.server import ApiServer
from broker.web.rendering import PageRoute
from tests.browser.pages import MENU
from tests.browser.visitor import HOSTILE, HOSTILE_SHOWN, Visitor

#: Routes that are no pages: files, plot data, the icon, the login callback, search suggestions.
NO_PAGES = ("/static", "/plots", "/favicon", "/login/callback", "/search/suggestions")
SERIOUS = ("serious", "critical")
#: With preloading axe copies style sheets into its own elements, which the content security policy refuses.
OPTIONS = {"preload": False}


def test_every_page_is_covered_by_these_tests(site: ApiServer, found: dict[str, Any]) -> None:
    paths = [address.partition("?")[0] for address in (*MENU, *found["pages"])]
    routes = [
        route
        for route in site.app.routes
        if isinstance(route, PageRoute) and "GET" in route.methods and not route.path.startswith(NO_PAGES)
    ]
    assert len(routes) > 20
    assert [route.path for route in routes if not any(route.path_regex.match(path) for path in paths)] == []


def test_hostile_names_are_shown_as_text(visitor: Visitor, found: dict[str, Any]) -> None:
    visitor.log_in()
    user = next(task["username"] for task in found["tasks"] if task["username"] != "atlasprd")
    assert user == HOSTILE
    for address in ("/tasks", *(page for page in found["pages"] if re.fullmatch(r"/tasks/\d+", page))):
        visitor.open(address)
        text = visitor.page.locator("body").inner_text()
        assert HOSTILE_SHOWN in text and "\x1b" not in text, address


def test_a_user_with_a_hostile_name_has_a_page(visitor: Visitor, found: dict[str, Any]) -> None:
    task = next(item["jeditaskid"] for item in found["tasks"] if item["username"] == HOSTILE)
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
            (
                address,
                violation["id"],
                violation["help"],
                violation["nodes"][0]["html"][:200],
                violation["nodes"][0]["failureSummary"][:300],
            )
            for violation in response["violations"]
            if violation["impact"] in SERIOUS
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
def test_a_large_screen_has_larger_letters_and_cuts_nothing(visitor: Visitor) -> None:
    for address in ("/", "/queues", "/map"):
        visitor.open(address)
        size, width = visitor.page.evaluate(
            "[parseFloat(getComputedStyle(document.body).fontSize), document.documentElement.scrollWidth]"
        )
        assert size >= 20 and width <= 3840, address


def test_a_page_is_usable_by_keyboard(visitor: Visitor) -> None:
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
        link_address = visitor.page.evaluate("document.activeElement.closest('svg a')?.getAttribute('href') ?? ''")
        if link_address.startswith("/queues/"):
            break
    keys.press("Enter")
    visitor.page.wait_for_url(f"**{link_address}")
    assert visitor.heading().startswith("Queue ")
