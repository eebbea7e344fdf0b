"""Ten personas: the first question of each is answered above the fold within two clicks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.pages import KEY
from tests.browser.visitor import HOSTILE_SHOWN, Visitor

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
MOST_CLICKS = 2


def check_answer(visitor: Visitor, answer: Any, *words: str) -> None:
    """Check that an answer has the words, begins above the fold, and took few enough clicks."""
    answer.wait_for()
    box, text = answer.bounding_box(), answer.inner_text()
    height = visitor.page.viewport_size["height"]
    assert box is not None and box["y"] + min(box["height"], 40) <= height, f"{text[:80]} at {box}"
    assert all(word in text for word in words), text
    assert visitor.clicks <= MOST_CLICKS, f"{visitor.clicks} clicks"
    assert set(visitor.opened) <= {"/"}, "everybody begins at the front page"


def find(visitor: Visitor, text: str) -> None:
    """Type into the search bar and choose the first hit; the key counts as a click."""
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
    """A visitor with a desktop screen."""
    visitor.page.set_viewport_size(DESK)
    return visitor


def test_an_operator_sees_what_waits_since_when_and_why(desk: Visitor) -> None:
    desk.open("/")
    check_answer(desk, desk.page.locator("main table").first.locator("tbody tr").first)
    assert desk.page.locator("main table").first.locator("thead").inner_text().split()[0] == "Reason"
    desk.click(desk.page.locator('tbody a[href^="/tasks?reason="]').first)
    check_answer(desk, desk.page.locator("main tbody tr").first, "pending")


def test_a_site_admin_sees_why_a_queue_gets_nothing(desk: Visitor) -> None:
    desk.open("/")
    find(desk, "BNL")
    check_answer(desk, desk.page.locator(".lead .verdict").first)
    assert "/queues/BNL" in desk.page.url


def test_a_user_sees_their_tasks_and_what_to_do(desk: Visitor) -> None:
    desk.log_in()
    find(desk, "alert(1)")
    check_answer(desk, desk.page.locator(".lead .verdict").first)
    assert "/users/" in desk.page.url and HOSTILE_SHOWN in desk.heading()
    check_answer(desk, desk.page.locator("main .card").first)


def test_a_tuner_sees_the_effect_of_a_key_and_can_try_it(desk: Visitor) -> None:
    desk.log_in()
    find(desk, KEY)
    check_answer(desk, desk.page.get_by_text("Rules that read it rejected", exact=False).first, "in 24 h")
    check_answer(desk, desk.page.get_by_role("heading", name="Try", exact=True))


def test_a_shifter_sees_what_is_wrong_and_what_is_new_since_yesterday(desk: Visitor) -> None:
    desk.open("/")
    check_answer(desk, desk.page.get_by_role("heading", name="What is wrong now"))
    desk.follow("Two times")
    check_answer(desk, desk.page.locator(".lead .verdict").first, "Since ")


def test_a_manager_sees_the_share_against_its_target(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("Grid")
    desk.follow("Shares")
    check_answer(desk, desk.page.locator("main .bars").first, "target")


def test_a_newcomer_sees_whether_work_flows_and_finds_each_word(desk: Visitor) -> None:
    desk.open("/")
    check_answer(desk, desk.page.locator(".figure").first, "Jobs placed an hour")
    desk.follow("Glossary")
    check_answer(desk, desk.page.locator(".facts").first)


def test_an_auditor_sees_who_changed_what_and_why(desk: Visitor, found: dict[str, Any]) -> None:
    desk.log_in()
    desk.follow("Tuning")
    check_answer(desk, desk.page.locator(".lead").get_by_text("Last changed"), KEY, "by ", HOSTILE_SHOWN)
    desk.follow("all changes")
    assert desk.page.url.endswith("#changes")
    check_answer(desk, desk.page.get_by_role("heading", name="Changes", exact=True))


def test_an_auditor_sees_who_looked_at_which_alarm(desk: Visitor) -> None:
    desk.log_in()
    desk.follow("Alarms")
    check_answer(desk, desk.page.get_by_role("heading", name="Who looked at what"))


def test_the_author_of_a_monitor_finds_the_data_and_their_description(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("Grid")
    check_answer(desk, desk.page.get_by_role("link", name="CSV").first)
    address = desk.page.get_by_role("link", name="JSON", exact=True).first.get_attribute("href")
    answer = desk.page.request.get(address)
    assert answer.ok and answer.json()["queues"]
    assert desk.page.request.get("/api/v1/openapi.json").ok


def test_the_author_of_a_monitor_finds_an_example_request(desk: Visitor) -> None:
    desk.open("/")
    desk.follow("API")
    desk.follow("get_shadow")
    check_answer(desk, desk.page.locator("main pre").first, "curl")


@pytest.mark.parametrize("visitor", [{"viewport": PHONE, "has_touch": True}], indirect=True, ids=["phone"])
def test_a_phone_reaches_waiting_work_and_a_task_as_fast(visitor: Visitor) -> None:
    visitor.open("/")
    check_answer(visitor, visitor.page.locator("main tbody tr").first)
    visitor.click(visitor.page.locator('tbody a[href^="/tasks?reason="]').first)
    visitor.page.wait_for_url("**/tasks?reason=*")
    visitor.click(visitor.page.locator('tbody a[href^="/tasks/"]').first)
    visitor.page.wait_for_url("**/tasks/*")
    check_answer(visitor, visitor.page.locator(".decision .verdict").first)
