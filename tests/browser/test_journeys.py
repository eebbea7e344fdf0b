"""Ten journeys through the web pages in a real browser, each with at most four clicks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from tests.api.serving import client_of
from tests.browser.pages import KEY, MENU
from tests.browser.visitor import HOSTILE, HOSTILE_SHOWN, Visitor

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture
def api(site: ApiServer) -> Any:
    with client_of(site) as client:
        yield client


def set_value(api: httpx.Client, value: int) -> None:
    answer = api.put(f"/api/v1/config/{KEY}", json={"value": value, "reason": HOSTILE})
    assert answer.is_success, answer.text


def task_with(api: httpx.Client, outcome: str, user: bool = False) -> int:
    tasks = api.get("/api/v1/tasks", params={"limit": 200}).json()["tasks"]
    return next(
        int(line["task"]["jeditaskid"])
        for line in tasks
        if line["outcome"] == outcome and (line["task"]["username"] != "atlasprd") == user
    )


def test_why_a_site_gets_no_jobs(visitor: Visitor) -> None:
    visitor.open()
    visitor.follow("Grid")
    visitor.follow("got no jobs", exact=False)
    visitor.page.wait_for_url("**/queues?**idle=true")
    visitor.click(visitor.page.locator("table tbody th a").first)
    visitor.page.wait_for_url("**/queues/*")
    assert visitor.heading().startswith("Queue ") and visitor.page.locator("p.verdict").first.inner_text()


def test_why_a_task_is_pending_and_what_would_help(visitor: Visitor) -> None:
    visitor.log_in()
    visitor.click(visitor.page.locator("table").first.locator('tbody a[href^="/tasks?reason="]').first)
    visitor.page.wait_for_url("**/tasks?reason=*")
    visitor.click(visitor.page.locator("table").first.locator('tbody a[href^="/tasks/"]').first)
    visitor.page.wait_for_url("**/tasks/*")
    visitor.click(visitor.page.get_by_role("link", name="What would help?").first)
    visitor.page.wait_for_url("**evaluate=true")
    assert visitor.page.get_by_role("heading", name="Candidates, rule by rule").first.is_visible()


def test_why_a_user_is_throttled(visitor: Visitor, api: httpx.Client) -> None:
    task = task_with(api, "throttled", user=True)
    visitor.log_in()
    visitor.follow("Work")
    visitor.click(visitor.page.get_by_role("link", name=str(task), exact=True))
    visitor.follow("All tasks of", exact=False)
    visitor.page.wait_for_url("**/users/*")
    assert visitor.heading().startswith("User ") and "cap" in visitor.main()


def test_a_value_is_rolled_back(visitor: Visitor, api: httpx.Client) -> None:
    set_value(api, 210)
    first = api.get(f"/api/v1/config/{KEY}").json()["version"]
    set_value(api, 230)
    visitor.log_in()
    visitor.follow("Tuning")
    form = visitor.page.get_by_role("form", name="Roll back")
    form.locator("select").select_option(str(first))
    form.get_by_label("reason").fill(HOSTILE)
    visitor.press("Roll back")
    visitor.page.get_by_role("row").filter(has_text="230").filter(has_text="210").first.wait_for()
    assert visitor.main().count(HOSTILE_SHOWN) >= 3
    assert api.get(f"/api/v1/config/{KEY}").json()["value"] == 210


def test_a_value_is_tried_on_a_share_of_the_tasks(visitor: Visitor) -> None:
    visitor.log_in()
    visitor.follow("Tuning")
    visitor.follow(KEY)
    form = visitor.page.locator("form").filter(has_text="per cent of the tasks")
    form.get_by_label("value").fill("190")
    form.get_by_label("reason").fill(HOSTILE)
    visitor.click(form.get_by_role("button", name="Start"))
    visitor.page.get_by_text("runs until").wait_for()
    visitor.press("Stop")
    visitor.page.get_by_text("ended").first.wait_for()


def test_why_not_from_the_heat_map(visitor: Visitor) -> None:
    visitor.open()
    visitor.follow("Grid")
    visitor.click(visitor.page.locator('svg a[href$="#rejected"]').first)
    visitor.page.wait_for_url("**/queues/*")
    visitor.follow("why not?", exact=False)
    visitor.page.wait_for_url("**/why-not/**")
    assert visitor.page.get_by_role("table").first.is_visible()


def test_a_decision_is_repeated_and_compared(visitor: Visitor, api: httpx.Client) -> None:
    visitor.log_in()
    visitor.open(f"/tasks/{task_with(api, 'brokered')}")
    visitor.click(visitor.page.get_by_role("button", name="Decide again and compare").first)
    visitor.page.locator("p.verdict", has_text="done").wait_for()
    assert '"different": 0' in visitor.main()


def test_a_what_if_is_followed_to_its_end(visitor: Visitor) -> None:
    visitor.log_in()
    visitor.follow("Tuning")
    visitor.follow(KEY)
    form = visitor.page.locator("form").filter(has_text="changes nothing")
    form.get_by_label("value").fill("1")
    visitor.click(form.get_by_role("button", name="Preview"))
    visitor.page.wait_for_url("**/runs/*")
    visitor.page.locator("p.verdict", has_text="done").wait_for()
    assert "decisions change" in visitor.page.locator("p.lead").inner_text()
    assert visitor.page.get_by_text("The result as JSON").is_visible()


@pytest.mark.parametrize("width", [390, 700, 1024, 1280, 1440, 1920])
def test_fields_stay_inside_their_form(visitor: Visitor, width: int) -> None:
    visitor.log_in()
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.open(f"/tuning/{KEY}")
    overflowing = visitor.page.evaluate(
        """() => [...document.querySelectorAll(".forms form")].flatMap((form) => {
            const card = form.getBoundingClientRect();
            return [...form.querySelectorAll("input:not([type=hidden]), button, label")]
                .map((one) => [one.name || one.innerText, one.getBoundingClientRect()])
                .filter(([, box]) => box.right > card.right || box.left < card.left || box.width < 40)
                .map(([name, box]) => `${name} ${box.left}-${box.right}, card ${card.left}-${card.right}`);
        })"""
    )
    assert visitor.page.locator(".forms form").count() == 5 and overflowing == []


def test_logging_in_and_the_limits_of_a_stranger(visitor: Visitor) -> None:
    visitor.open(f"/tuning/{KEY}")
    assert visitor.page.locator("main form").count() == 0
    refusal = visitor.page.request.post(f"/tuning/{KEY}", form={"value": "1", "reason": "x", "version": "0"})
    assert refusal.status == 401
    visitor.open("/users/somebody")
    visitor.forgive("401")
    assert visitor.heading() == "Log in"
    visitor.click(visitor.page.locator("main").get_by_role("link", name="Log in"))
    visitor.page.get_by_label("token").fill(visitor.token)
    visitor.click(visitor.page.locator("main").get_by_role("button", name="Log in"))
    visitor.press("Log out")
    visitor.page.get_by_role("link", name="Log in").first.wait_for()


@pytest.mark.parametrize("visitor", [PHONE], indirect=True, ids=["phone"])
def test_no_page_is_wider_than_a_phone(visitor: Visitor) -> None:
    too_wide = []
    for address in MENU:
        visitor.open(address)
        widths = visitor.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        if widths[0] > widths[1]:
            too_wide.append((address, widths))
    assert not too_wide
    visitor.follow("Work")
    visitor.page.wait_for_url("**/tasks")
