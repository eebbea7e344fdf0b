"""Ten persons: the first question of each is answered in at most two clicks from where they start, above the fold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.pages import KEY
from tests.browser.visitor import HOSTILE_SHOWN, Visitor

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
MOST_CLICKS = 2


def answered(visitor: Visitor, what: Any, *words: str) -> None:
    """The answer is there, says some words, and begins above the fold; it took no more clicks than it may."""
    what.wait_for()
    box, text = what.bounding_box(), what.inner_text()
    height = visitor.page.viewport_size["height"]
    assert box is not None and box["y"] + min(box["height"], 40) <= height, f"{text[:80]} at {box}"
    assert all(word in text for word in words), text
    assert visitor.clicks <= MOST_CLICKS, f"{visitor.clicks} clicks"
    assert set(visitor.opened) <= {"/"}, "everybody begins at the front page"


def find(visitor: Visitor, text: str) -> None:
    """Type into the search of the bar and choose what was found first: the key counts as a click, too."""
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type(text)
    visitor.clicks += 1
    with visitor.page.expect_navigation():
        visitor.page.keyboard.press("Enter")
    if "/search" in visitor.page.url:
        with visitor.page.expect_navigation():
            visitor.click(visitor.page.locator("main tbody th a").first)


@pytest.fixture
def desk(visitor: Visitor) -> Visitor:
    """At a desk."""
    visitor.page.set_viewport_size(DESK)
    return visitor


def test_an_operator_sees_what_waits_since_when_and_why(desk: Visitor) -> None:
    desk.open("/")
    answered(desk, desk.page.locator("main table").first.locator("tbody tr").first)
    assert desk.page.locator("main table").first.locator("thead").inner_text().split()[0] == "Reason"
    desk.click(desk.page.locator('tbody a[href^="/tasks?reason="]').first)
    answered(desk, desk.page.locator("main tbody tr").first, "pending")


def test_a_site_admin_sees_why_a_queue_gets_nothing(desk: Visitor) -> None:
    desk.open("/")
    find(desk, "BNL")
    answered(desk, desk.page.locator(".lead .verdict").first)
    assert "/queues/BNL" in desk.page.url


def test_a_user_sees_the_own_tasks_and_what_to_do(desk: Visitor) -> None:
    desk.log_in()
    find(desk, "alert(1)")
    answered(desk, desk.page.locator(".lead .verdict").first)
    assert "/users/" in desk.page.url and HOSTILE_SHOWN in desk.heading()
    answered(desk, desk.page.locator("main .card").first)


def test_who_tunes_sees_what_a_key_did_and_can_try_it(desk: Visitor) -> None:
    desk.log_in()
    find(desk, KEY)
    answered(desk, desk.page.get_by_text("Rules that read it rejected", exact=False).first, "in 24 h")
    answered(desk, desk.page.get_by_role("heading", name="Try", exact=True))


def test_a_shifter_sees_what_is_wrong_and_what_is_new_since_yesterday(desk: Visitor) -> None:
    desk.open("/")
    answered(desk, desk.page.get_by_role("heading", name="What is wrong now"))
    desk.follow("Two times")
    answered(desk, desk.page.locator(".lead .verdict").first, "Since ")


def test_a_manager_sees_the_share_against_its_target(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("Grid")
    desk.follow("Shares")
    answered(desk, desk.page.locator("main .bars").first, "target")


def test_a_newcomer_sees_whether_work_flows_and_finds_each_word(desk: Visitor) -> None:
    desk.open("/")
    answered(desk, desk.page.locator(".figure").first, "Jobs placed an hour")
    desk.follow("Glossary")
    answered(desk, desk.page.locator(".facts").first)


def test_an_auditor_sees_who_changed_what_and_why(desk: Visitor, found: dict[str, Any]) -> None:
    desk.log_in()
    desk.follow("Tuning")
    answered(desk, desk.page.locator(".lead").get_by_text("Last changed"), KEY, "by ", HOSTILE_SHOWN)
    desk.follow("all changes")
    assert desk.page.url.endswith("#changes")
    answered(desk, desk.page.get_by_role("heading", name="Changes", exact=True))


def test_an_auditor_sees_who_looked_at_which_alarm(desk: Visitor) -> None:
    desk.log_in()
    desk.follow("Alarms")
    answered(desk, desk.page.get_by_role("heading", name="Who looked at what"))


def test_who_writes_a_monitor_finds_the_data_and_their_description(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("Grid")
    answered(desk, desk.page.get_by_role("link", name="CSV").first)
    address = desk.page.get_by_role("link", name="JSON", exact=True).first.get_attribute("href")
    answer = desk.page.request.get(address)
    assert answer.ok and answer.json()["queues"]
    assert desk.page.request.get("/api/v1/openapi.json").ok


def test_who_writes_a_monitor_finds_how_a_question_is_asked(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("API")
    desk.follow("get_shadow")
    answered(desk, desk.page.locator("main pre").first, "curl")


@pytest.mark.parametrize("visitor", [{"viewport": PHONE, "has_touch": True}], indirect=True, ids=["phone"])
def test_on_a_phone_what_waits_and_a_task_are_as_near(visitor: Visitor) -> None:
    visitor.open("/")
    answered(visitor, visitor.page.locator("main tbody tr").first)
    visitor.click(visitor.page.locator('tbody a[href^="/tasks?reason="]').first)
    visitor.page.wait_for_url("**/tasks?reason=*")
    visitor.click(visitor.page.locator('tbody a[href^="/tasks/"]').first)
    visitor.page.wait_for_url("**/tasks/*")
    answered(visitor, visitor.page.locator(".decision .verdict").first)
