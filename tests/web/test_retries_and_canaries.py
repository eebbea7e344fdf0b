"""Pages of retry rules and canaries: what is in force, and its effects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.retries.answers.retries import RetryActionLine
from broker.retries.pages.retries import retries_sentence
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import CanaryAnswer
from broker.tuning.pages.canaries import canaries_sentence, effects
from broker.tuning.statements.canaries import OutcomeOfGroup
from tests.web.test_other_pages import figures as words_of

_ACTED = sa.text("""
    INSERT INTO broker.retry_actions (acted_at, pandaid, attemptnr, jeditaskid, queue, rule, rules_version, errorsource,
        errorcode, action, active, target, rows_changed, before, after, reason, evidence)
    VALUES (:at, 7, 1, 3, 'BNL', 'panda:1', 'v', 'pilotErrorCode', 1235, 'no_retry', :active, 'files', 1,
        '{"maxattempt": 5}', '{"maxattempt": 1}', 'no more tries', '{}')""")


def test_retry_rules_are_shown_with_their_actions(stranger: httpx.Client, decided: Database) -> None:
    assert "No rule acted in this time." in stranger.get("/retries").text
    now = datetime.fromisoformat(stranger.get("/api/v1/queues").json()["now"])
    with decided.begin() as connection:
        connection.execute(_ACTED, [{"at": now, "active": True}, {"at": now, "active": False}])
    try:
        page = stranger.get("/retries")
        document = stranger.get("/retries", headers={"Accept": "application/json"}).json()
    finally:
        with decided.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.retry_actions"))
    words = words_of(page.text)
    assert "in 24 h they acted 1 times, on 1 failed jobs, and would have acted 1 times more" in words
    assert "maxattempt 5 → 1" in words and 'href="/jobs/7"' in page.text
    assert len(document["actions"]) == 2 and "rules" in document


def test_actions_of_rules_are_counted_by_job() -> None:
    actions = [RetryActionLine.model_construct(pandaid=job, active=active) for job, active in ((1, True), (1, True))]
    assert retries_sentence([], [], 6.0).startswith("There is no retry rule")
    assert "acted 2 times, on 1 failed jobs, and would have acted 0 times more" in retries_sentence([], actions, 6.0)


def canary(running: bool, *outcomes: OutcomeOfGroup) -> CanaryAnswer:
    return CanaryAnswer.model_construct(canary=4, set={"K": 2}, share=0.1, running=running, outcomes=list(outcomes))


def group(name: str, **figures: Any) -> OutcomeOfGroup:
    zeros = dict.fromkeys(("decisions", "tasks", "brokered", "pending", "throttled", "candidates", "jobs"), 0)
    return OutcomeOfGroup(group=name, brokerage="production_job", **{**zeros, **figures})


def test_canary_tasks_are_compared_with_the_rest() -> None:
    lines = effects(canary(True, group("rest", decisions=8, brokered=2), group("canary", decisions=4, brokered=3)))
    assert [(line["group"], line["brokered"]) for line in lines] == [("canary", 75.0), ("rest", 25.0)]
    assert effects(canary(True, group("canary"))) == []
    assert canaries_sentence([canary(True)]) == "Canary 4 tries K = 2 on 10 % of the tasks."
    assert canaries_sentence([canary(False)]) == "No canary runs; 1 were tried."


def test_a_canary_has_its_page(logged_in_client: httpx.Client, stranger: httpx.Client, decided: Database) -> None:
    with decided.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.canary_versions"))
        connection.execute(sa.text("DELETE FROM broker.canaries"))
    assert "None was tried yet." in stranger.get("/canaries").text
    key_page = logged_in_client.get("/tuning/NQUEUED_SAT_CAP")
    token = key_page.text.split('name="csrf" value="')[1].split('"')[0]
    fields = {"csrf": token, "value": "180", "percent": "10", "hours": "1", "reason": "links were upgraded"}
    assert logged_in_client.post("/tuning/NQUEUED_SAT_CAP/canary", data=fields).status_code == 303
    try:
        page = logged_in_client.get("/canaries").text
        assert "tries NQUEUED_SAT_CAP = 180 on 10 % of the tasks." in page and 'action="/canaries:stop"' in page
        assert 'action="/canaries:stop"' not in stranger.get("/canaries").text
    finally:
        assert logged_in_client.post("/canaries:stop", data={"csrf": token}).status_code == 303


@pytest.mark.parametrize("hours", ["0", "x", "841"])
def test_invalid_hours_are_refused(stranger: httpx.Client, hours: str) -> None:
    assert stranger.get(f"/retries?hours={hours}").status_code == 422
