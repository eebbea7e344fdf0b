"""The tasks of the logged-in user, and the expected end of the jobs of a task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from broker.history.answers.job import expected_end, finished_an_hour
from broker.web.pictures.job_states import end_sentence

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("jobs", "minutes", "speed"), [(2, 60, None), (3, 60, 3.0), (30, 360, 5.0), (6, 1, 36.0), (0, None, None)]
)
def test_jobs_finished_per_hour(jobs: int, minutes: int | None, speed: float | None) -> None:
    first = None if minutes is None else NOON - timedelta(minutes=minutes)
    assert finished_an_hour(jobs, first, NOON) == (None if speed is None else pytest.approx(speed))


def test_the_expected_end_follows_from_the_speed() -> None:
    states = {"finished": 10, "failed": 4, "running": 3, "activated": 7}
    assert expected_end(states, 5.0, NOON) == NOON + timedelta(hours=2)
    assert expected_end(states, None, NOON) is None and expected_end({"finished": 9}, 5.0, NOON) is None
    sentence = end_sentence(5.0, NOON + timedelta(hours=2))
    assert sentence == "5 finish an hour: these jobs have ended by about 2026-08-01 14:00 UTC."
    assert end_sentence(None, None) == ""


def test_mine_explains_a_token_without_a_user(logged_in_client: httpx.Client, stranger: httpx.Client) -> None:
    assert stranger.get("/mine").status_code == 401 and 'href="/mine"' not in stranger.get("/").text
    assert (
        "no task is known to be yours" in logged_in_client.get("/mine").text
        and 'href="/mine"' in logged_in_client.get("/").text
    )
