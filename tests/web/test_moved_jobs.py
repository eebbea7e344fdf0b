"""A change is refused that moves more jobs than whoever makes it allows, as its preview says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from broker.api.problems import Problem
from broker.store.connection.database import Database
from broker.tuning.pages.moved_jobs import most_moved, moved_jobs, within
from broker.whatif.statements import runs
from broker.whatif.statements.runs import Run
from tests.web.test_sessions import csrf_of

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
KEY = "MAX_MISSING_INPUT_FILES"
TOTALS = [
    {"jobs": {"moved": 30, "before": 90, "after": 90}, "queues": {}},
    {"jobs": {"moved": 12, "before": 10, "after": 10}, "queues": {}},
]


def run(value: int, minutes: float) -> Run:
    at = NOW - timedelta(minutes=minutes)
    return Run(
        id=7, kind="preview", subject="ann", state="done", done=1, total=1, created_at=at, started_at=at, ended_at=at,
        asked={"set": {KEY: value}}, holder=None, cancel=False, result={"totals": TOTALS}, problem=None,
    )  # fmt: skip


@pytest.mark.parametrize(("text", "most"), [("", None), (" ", None), ("1,550", 1550), ("0", 0)])
def test_how_many_may_move_is_a_number_or_nothing(text: str, most: int | None) -> None:
    assert most_moved({"moved": text}) == most


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "10000000001"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(Problem, match="whole number"):
        most_moved({"moved": text})


@pytest.mark.parametrize(
    ("previewed", "most", "share", "said"),
    [
        (run(5, 1), 42, 1.0, "42 of 100 jobs move, at most 42"),
        (run(5, 60), 4, 0.1, "4 of 100 jobs move, at most 4"),
        (None, None, 1.0, ""),
    ],
)
def test_what_keeps_to_the_limit_says_so(previewed: Run | None, most: int | None, share: float, said: str) -> None:
    assert said in within(previewed, {KEY: 5}, most, NOW, share)


@pytest.mark.parametrize(
    ("previewed", "most", "share", "code"),
    [
        (run(5, 1), 41, 1.0, "too_many_jobs_move"),
        (run(5, 1), 3, 0.1, "too_many_jobs_move"),
        (run(6, 1), 99, 1.0, "not_previewed"),
        (run(5, 61), 99, 1.0, "not_previewed"),
        (None, 99, 1.0, "not_previewed"),
    ],
)
def test_what_does_not_is_refused(previewed: Run | None, most: int, share: float, code: str) -> None:
    with pytest.raises(Problem) as refused:
        within(previewed, {KEY: 5}, most, NOW, share)
    assert (refused.value.status, refused.value.code) == (409, code)
    assert moved_jobs(None) == (0, 0)


def test_the_form_of_a_key_takes_a_limit(somebody: httpx.Client, decided: Database) -> None:
    address = f"/tuning/{KEY}"
    before = somebody.get(f"/api/v1/config/{KEY}").json()
    value = int(before["value"] or 0) + 1
    fields: dict[str, Any] = {"csrf": csrf_of(somebody.get(address).text), "version": str(before["version"])}
    fields |= {"value": str(value), "reason": "more room", "moved": "10", "percent": "50", "hours": "1"}
    for form in (address, f"{address}/canary"):
        refused = somebody.post(form, data=fields)
        assert refused.status_code == 409 and "was not previewed" in refused.text and 'value="10"' in refused.text
    with decided.begin() as connection:
        runs.add_done(connection, "preview", {"set": {KEY: value}}, "ann", {"totals": TOTALS}, 1, 1.0)
    for form, moved in ((address, "41"), (f"{address}/canary", "20")):
        refused = somebody.post(form, data={**fields, "moved": moved})
        assert refused.status_code == 409 and "42 of 100 jobs" in refused.text
    assert somebody.get(f"/api/v1/config/{KEY}").json()["value"] == before["value"]
    assert somebody.post(address, data={**fields, "moved": "42"}).status_code == 303
    assert "42 of 100 jobs move, at most 42" in somebody.get(address).text
    now = str(somebody.get(f"/api/v1/config/{KEY}").json()["version"])
    back = {"csrf": fields["csrf"], "version": now, "reason": "enough"}
    assert somebody.post(f"{address}/back", data=back).status_code == 303
