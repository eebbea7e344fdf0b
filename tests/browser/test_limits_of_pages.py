"""Limits of every page on desktop and phone, light and dark, from ``docs/explanation/page.md``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import KEY, MENU
from tests.browser.visitor import Visitor

MEASURE = Path(__file__).with_name("limits_of_pages.js").read_text(encoding="utf-8")
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
#: The element that answers the question of a page, by address pattern; by default the first row of the first table.
ANSWERS = (
    (r"/tasks/\d+", ".decision .verdict"),
    (r"/quality", ".verdict"),
    (r"/queues/[^?]+|/tasks/.*/why-not/.*|/rules/.+|/reasons/.+|/tuning/[A-Z].*|/users/.+|/runs/.+", ".verdict"),
    (r"/shares", ".bars"),
    (r"/map", "main svg.picture"),
    (r"/(jobs|pools|simulations|nuclei)/.+|/glossary|/docs/.+", ".facts"),
    (r"/compare|/service|/alarms|/retries|/canaries", "main .card"),
    (r"/mine|/shadow|/login|/match|/search|/pins|/sources|/runs|/pools", "main .card"),
)
MOST_TABS = 400


def answer_of(address: str) -> str:
    """The selector of the element that answers the question of a page."""
    return next((selector for pattern, selector in ANSWERS if re.fullmatch(pattern, address)), "main tbody tr")


@pytest.mark.parametrize(
    "visitor", [{"viewport": DESK}, {"viewport": PHONE, "has_touch": True}], indirect=True, ids=["desk", "phone"]
)
@pytest.mark.parametrize("half", [0, 1], ids=["menu", "one thing"])
def test_every_page_respects_the_limits(visitor: Visitor, found: dict[str, Any], half: int) -> None:
    visitor.log_in()
    all_violations = []
    for address in (MENU, found["pages"])[half]:
        visitor.open(address)
        for scheme in ("light", "dark"):
            visitor.page.emulate_media(color_scheme=scheme)
            violations = visitor.page.evaluate(MEASURE, answer_of(address.partition("?")[0]))
            all_violations += [f"{address} {scheme}: {violation}" for violation in violations]
    visitor.forgive("status of 409", "status of 404")
    assert not all_violations, "\n".join(all_violations)


@pytest.mark.parametrize("visitor", [{"viewport": DESK}], indirect=True, ids=["desk"])
def test_tab_reaches_every_usable_element(visitor: Visitor, found: dict[str, Any]) -> None:
    visitor.log_in()
    for address in ("/", "/shares", f"/tuning/{KEY}", found["pages"][0], "/login"):
        visitor.open(address)
        usable = visitor.page.evaluate(
            """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
                .filter((one) => one.checkVisibility()).length"""
        )
        assert usable < MOST_TABS, address
        visitor.page.evaluate("() => { window.reached = new Set(); window.unseen = []; }")
        for _ in range(usable):
            visitor.page.keyboard.press("Tab")
            visitor.page.evaluate(
                """() => {
                    const one = document.activeElement;
                    window.reached.add(one);
                    if (one !== document.body && getComputedStyle(one).outlineStyle === "none") {
                        window.unseen.push(one.outerHTML.slice(0, 80));
                    }
                }"""
            )
        reached, unseen = visitor.page.evaluate("[window.reached.size, window.unseen]")
        assert unseen == [], address
        assert reached == usable, f"{address}: {reached} of {usable} were reached with Tab"


def test_a_click_on_a_heading_sorts_and_the_address_keeps_it(visitor: Visitor) -> None:
    visitor.open("/queues")
    column = "() => [...document.querySelectorAll('main table tbody tr')].map((row) => row.cells[4].textContent)"
    visitor.page.locator("thead th:nth-child(5) button").first.click()
    visitor.page.wait_for_url("**/queues?sort=0.4d")
    figures = [int(text.replace(",", "")) for text in visitor.page.evaluate(column)]
    assert len(figures) > 20 and figures == sorted(figures, reverse=True) and figures[0] > figures[-1]
    visitor.page.locator("thead th:nth-child(5) button").first.click()
    visitor.page.wait_for_url("**/queues?sort=0.4")
    visitor.page.reload()
    visitor.page.locator("th[aria-sort=ascending]").wait_for()
    ascending = [int(text.replace(",", "")) for text in visitor.page.evaluate(column)]
    assert ascending == sorted(figures)
