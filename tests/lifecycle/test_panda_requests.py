"""Requests of PanDA's API and its answers."""

from __future__ import annotations

from typing import Any

import pytest

from broker.lifecycle.model.panda_requests import KillRequest, UnusableAnswerError, accepted, kill_requests


def test_each_request_has_one_code_and_the_order_is_kept() -> None:
    jobs = [(9, 51), (3, 2), (7, 51), (8, 51), (1, 2)]
    assert kill_requests(jobs, 2) == [
        KillRequest(51, (9, 7)),
        KillRequest(2, (3, 1)),
        KillRequest(51, (8,)),
    ]
    assert kill_requests([], 2) == []


@pytest.mark.parametrize(("code", "options"), [(2, []), (4, []), (10, ["keepUnmerged"]), (51, ["keepUnmerged"])])
def test_the_body_of_a_request(code: int, options: list[str]) -> None:
    assert KillRequest(code, (1, 2)).body == {"job_ids": [1, 2], "code": code, "kill_options": options}


def test_only_confirmed_jobs_are_accepted() -> None:
    assert accepted({"success": True, "data": [True, False, None, 1]}, (5, 6, 7, 8)) == {5}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no object"),
        ({"success": False, "message": "SSL required"}, "refused: SSL required"),
        ({"data": [True]}, "refused: no reason given"),
        ({"success": True, "data": [True, True]}, "each of 1 jobs"),
        ({"success": True, "data": None}, "each of 1 jobs"),
    ],
)
def test_unusable_answers_are_refused(document: Any, message: str) -> None:
    with pytest.raises(UnusableAnswerError, match=message):
        accepted(document, (5,))
