"""Choices of the reader: columns and a time span, kept in the address, and local times, kept in the browser."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.visitor import Visitor

SHOWN = """() => [...document.querySelector("main table").tHead.rows[0].cells]
    .filter((one) => getComputedStyle(one).display !== "none").map((one) => one.textContent)"""


@pytest.mark.parametrize("width", [1440, 390])
def test_chosen_columns_are_kept_in_the_address(visitor: Visitor, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.open("/queues")
    visitor.page.locator(".columns > summary").first.click()
    before = visitor.page.evaluate(SHOWN)
    menu = visitor.page.locator(".columns").first
    absent = menu.locator("input:not(:checked)").evaluate_all("all => all.map((one) => one.value)")
    menu.locator("input:checked").nth(2).click()
    after = before[:2] + before[3:]
    assert visitor.page.evaluate(SHOWN) == after
    if width < 720:  # a column hidden on phones can be switched on
        menu.locator(f"input[value='{absent[0]}']").click()
        assert len(visitor.page.evaluate(SHOWN)) == len(before)
    chosen = visitor.page.evaluate(SHOWN)
    assert "columns=0%3A" in visitor.page.url
    visitor.page.reload()
    visitor.page.locator(".columns").first.wait_for()
    assert visitor.page.evaluate(SHOWN) == chosen
    visitor.page.evaluate("() => document.dispatchEvent(new Event('refreshed'))")
    assert visitor.page.evaluate(SHOWN) == chosen and visitor.page.locator(".columns").count() >= 1


def test_local_times_are_shown_beside_utc_once_chosen(chromium: Any, site: Any) -> None:
    context = chromium.new_context(base_url=site.url, timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto("/tuning")
    time = page.locator("main time").filter(has_text="UTC").first
    time.wait_for()
    assert time.get_attribute("data-here") is None
    at = datetime.fromisoformat(str(time.get_attribute("datetime"))) + timedelta(hours=9)
    assert f"{at:%Y-%m-%d %H:%M} Asia/Tokyo" in str(time.get_attribute("title"))
    page.get_by_role("button", name="local times").click()
    for _ in range(2):
        assert f"{at:%H:%M}" in str(page.locator("main time[data-here]").first.get_attribute("data-here"))
        page.reload()
        page.locator("main time[data-here]").first.wait_for()
    page.get_by_role("button", name="local times").click()
    assert page.locator("main time[data-here]").count() == 0
    context.close()


LABELS = """() => [...document.querySelectorAll("[data-time]")].map((one) => [one.dataset.time, one.textContent])"""


@pytest.mark.parametrize("address", ["/", "/queues/BNL"])
def test_axes_of_plots_use_the_local_clock_once_chosen(chromium: Any, site: Any, address: str) -> None:
    context = chromium.new_context(base_url=site.url, timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(f"{address}?hours=6")
    page.locator(".plot.drawn canvas").first.wait_for()
    ticks = """() => {
        const all = Object.values(Bokeh.index)[0]?.model.document ?? [...Bokeh.documents][0];
        const at = Date.UTC(2026, 0, 2, 22, 30);
        const said = all.get_model_by_name("clock").doFormat([at, at + 3600000], { loc: 0 });
        return [all.get_model_by_name("hours").axis_label, ...said];
    }"""
    for hours, clock, text in ((0, "UTC", "22:30"), (9, "Asia/Tokyo", "07:30\n2026-01-03"), (0, "UTC", "22:30")):
        labels = page.evaluate(LABELS)
        assert labels
        for instant, label in labels:
            assert label == f"{datetime.fromisoformat(instant) + timedelta(hours=hours):%H:%M}"
        assert page.locator(".clock:not(:empty)").first.text_content() == ("local" if hours else "UTC")
        axis = page.evaluate(ticks)
        assert axis[0] == clock and axis[1].startswith(text), axis
        page.get_by_role("button", name="local times").click()
    context.close()


def test_without_scripts_axes_are_utc_and_say_so(chromium: Any, site: Any) -> None:
    context = chromium.new_context(base_url=site.url, timezone_id="Asia/Tokyo", java_script_enabled=False)
    page = context.new_page()
    page.goto("/?hours=6")
    first = page.locator("[data-time]").first
    instant = datetime.fromisoformat(str(first.get_attribute("data-time")))
    assert first.text_content() == f"{instant:%H:%M}" and instant.utcoffset() == timedelta(0)
    assert page.locator(".clock:not(:empty)").first.text_content() == "UTC"
    context.close()


@pytest.mark.parametrize("address", ["/", "/queues/BNL"])
def test_a_span_selected_in_a_plot_becomes_the_span_of_the_page(visitor: Visitor, address: str) -> None:
    visitor.open(f"{address}?hours=24")
    visitor.page.locator(".plot.drawn canvas").first.wait_for()
    visitor.page.locator(".plot .bokeh").scroll_into_view_if_needed()
    box = visitor.page.locator(".plot .bokeh").bounding_box()
    assert box is not None
    across, down = (box["x"] + part * box["width"] for part in (0.4, 0.7)), box["y"] + 60
    first, last = across
    visitor.page.mouse.move(first, down)
    visitor.page.mouse.down()
    visitor.page.mouse.move(last, down, steps=5)
    visitor.page.mouse.up()
    visitor.page.wait_for_url("**at=**")
    query = parse_qs(urlsplit(visitor.page.url).query)
    assert 6 < float(query["hours"][0]) < 9.5
    plot_address = str(visitor.page.locator("[data-plot]").first.get_attribute("data-plot"))
    assert "at=" in plot_address and "hours=" in plot_address
