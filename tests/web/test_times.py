"""The time shown by pages, kept in their address, and comparisons of two times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from broker.service.answers.overview import ChangeMark, step_of
from broker.service.answers.two_times import TwoTimes, two_times_sentence, waiting_changes
from broker.store.summaries.reason_counts import WaitingCount
from broker.web.time_range import plot_address

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
PAGES = ("/", "/reasons", "/queues", "/queues/ALPHA_MCORE", "/shares", "/nuclei", "/links", "/map", "/tasks")


def waited(code: str, tasks: int, main: str = "") -> WaitingCount:
    return WaitingCount(NOON, 300, "production_job", "pending", code, main, 2 * tasks, tasks)


def test_changes_of_waiting_tasks_are_ordered_by_size() -> None:
    earlier = [waited("no_candidates", 3, "lowmemory"), waited("throttle", 5)]
    changes = waiting_changes(earlier, [waited("no_candidates", 15, "lowmemory"), waited("throttle", 4)])
    assert [(change.code, change.tasks_then, change.tasks, change.chunks) for change in changes] == [
        ("lowmemory", 3, 15, 30),
        ("throttle", 5, 4, 8),
    ]
    assert waiting_changes([], []) == []


def test_the_sentence_names_waiting_tasks_and_changes() -> None:
    mark = ChangeMark(at=NOON, kind="tuning", about="NQUEUELIMITSITE", detail="links", editor="smith")
    feed = ChangeMark(at=NOON, kind="source", about="cric", detail="refused")
    waiting = tuple(waiting_changes([], [waited("no_such_code", 12)]))
    comparison = TwoTimes(then=NOON - timedelta(days=1), now=NOON, waiting=waiting, streams=(), changes=(mark, feed))
    sentence = two_times_sentence(comparison)
    assert "12 more tasks wait (no such code)" in sentence and "NQUEUELIMITSITE was changed at" in sentence
    assert "by smith" in sentence and "cric" not in sentence
    unchanged = comparison.model_copy(update={"waiting": (), "changes": ()})
    assert two_times_sentence(unchanged).endswith("nothing is known to be different.")


@pytest.mark.parametrize(("hours", "step_s"), [(1, 300), (24, 1800), (72, 5400), (168, 12600)])
def test_no_step_is_shorter_than_a_counting_interval(hours: int, step_s: float) -> None:
    assert step_of(timedelta(hours=hours)) == step_s


def test_a_plot_has_the_time_of_its_page() -> None:
    assert plot_address("/plots/outcomes", None, 24.0) == "/plots/outcomes"
    assert plot_address("/plots/outcomes", NOON, 6.0) == "/plots/outcomes?hours=6&at=2026-08-01T12:00:00Z"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_an_instant_and_keeps_it_in_its_address(stranger: httpx.Client, page: str) -> None:
    now = datetime.fromisoformat(stranger.get("/api/v1/queues").json()["now"])
    answer = stranger.get(f"{page}?at={now:%Y-%m-%dT%H:%M:%SZ}")
    assert answer.status_code == 200, answer.text[:500]
    assert f'name="at" value="{now:%Y-%m-%dT%H:%M}"' in answer.text
    assert stranger.get(f"{page}?at=nonsense").status_code == 422


def test_a_range_is_kept_and_passed_to_the_plot(stranger: httpx.Client) -> None:
    page = stranger.get("/?hours=6").text
    assert 'data-plot="/plots/outcomes?hours=6"' in page and 'name="hours" value="6"' in page
    plot = stranger.get("/plots/outcomes?hours=6").json()
    assert plot["span"][1] - plot["span"][0] == 6 * 3600 * 1000
    jobs = stranger.get("/plots/queues/ALPHA_MCORE?hours=72").json()
    assert jobs["span"][1] - jobs["span"][0] == 72 * 3600 * 1000
    assert stranger.get("/?hours=0").status_code == 422 and stranger.get("/?hours=10000").status_code == 422


def test_two_times_are_compared_on_a_page(stranger: httpx.Client) -> None:
    now = datetime.fromisoformat(stranger.get("/api/v1/queues").json()["now"])
    page = stranger.get("/compare")
    document = stranger.get("/compare", headers={"Accept": "application/json"}).json()
    assert page.status_code == 200 and "more task" in page.text and "What was changed between them" in page.text
    assert document["waiting"] and document["waiting"][0]["tasks_then"] == 0
    assert stranger.get(f"/compare?then={now + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}").status_code == 422
