"""``broker story``: the timeline of one task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing as decisions
from broker.store.gdpconfig_rows import TuningStore
from tests.cli.commands import Command, runner
from tests.conftest import TestServer

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
TASK = 77


def save_decision(
    database: Database, minute: int, reason: str = "", queues: str = "", tuning: int = 1, **more: Any
) -> None:
    """Save a decision on the task; without a reason it is brokered."""
    outcome = "pending" if reason else "brokered"
    chosen = tuple(Candidate(name, 1.0, {}) for name in queues.split())
    decision = Decision(TASK, more.get("dataset", 8), 1000.0, "production_job", outcome, reason, chosen, {}, ())
    origin = Origin(1, NOON + timedelta(minutes=minute), "s", tuning, 1, "0.1.0")
    record = DecisionRecord(decision, dict.fromkeys(queues.split()[:1], 25))
    with database.begin() as connection:
        decisions.save(Database.raw(connection), origin, [record])


ACTION = """
    INSERT INTO broker.job_actions (agent, pandaid, jeditaskid, queue, old_status, new_status, rule, action, code,
                                    value_s, limit_s, acted_at)
    VALUES ('timeouts', :pandaid, 77, 'Q1', 'activated', 'closed', 'queued', 'reassigned', 1, 90000, 86400,
            '2026-08-01T12:25:00Z')"""
LEFT = "INSERT INTO broker.rebrokered_from VALUES (77, 8, 'Q1', '2026-08-01T12:25:00Z')"
STATUS = """
    INSERT INTO doma_panda.tasks_statuslog (jeditaskid, modificationtime, status, reason)
    VALUES (77, '2026-08-01T12:01:00', 'pending', 'no_candidates'), (78, '2026-08-01T12:01:00', 'done', NULL)"""


@pytest.fixture(scope="module")
def task_database(test_server: TestServer) -> Iterator[Database]:
    """A task without a queue three times, then brokered twice under another tuning version, with changing queues."""
    with test_server.opened(test_server.create()) as database:
        with database.begin() as connection:
            store = TuningStore(database.names)
            store.sync_outside_changes(connection)
            store.set_value(connection, "NQUEUED_SAT_CAP", 200, vo="atlas", editor="ann", reason="more links")
        for minute in (0, 5, 10):
            save_decision(database, minute, "no_candidates")
            save_decision(database, minute, "no_candidates", dataset=9)
        save_decision(database, 20, queues="Q1 Q2", tuning=2)
        save_decision(database, 30, queues="Q2 Q3", tuning=2)
        with database.begin() as connection:
            connection.execute(sa.text(ACTION), [{"pandaid": 1}, {"pandaid": 2}])
            connection.execute(sa.text(LEFT))
            connection.execute(sa.text(STATUS))
        yield database


@pytest.fixture
def broker(task_database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", task_database.url)


@pytest.fixture
def events(broker: Command) -> list[dict[str, Any]]:
    result = broker("story", str(TASK), "--json")
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_events_come_in_the_order_of_time(events: list[dict[str, Any]]) -> None:
    assert [(event["at"][11:16], event["event"]) for event in events] == [
        ("12:00", "tuning"),
        ("12:00", "decision"),
        ("12:00", "decision"),
        ("12:01", "status"),
        ("12:20", "tuning"),
        ("12:20", "decision"),
        ("12:25", "job_action"),
        ("12:25", "rebrokered_from"),
        ("12:30", "decision"),
    ]


def test_equal_decisions_are_one_event_and_changes_are_listed(events: list[dict[str, Any]]) -> None:
    decisions = [event for event in events if event["event"] == "decision"]
    assert decisions[0]["until"][11:16] == "12:10"
    waiting, other_dataset, first, second = (event["about"] for event in decisions)
    assert (waiting["times"], waiting["reason"]) == (3, "no_candidates")
    assert waiting["decisions"] == [1, 1] and waiting["changed"] is None and other_dataset["datasetid"] == 9
    assert first["changed"] == {
        "was_outcome": "pending", "was_reason": "no_candidates", "gained": ["Q1", "Q2"], "lost": []
    }  # fmt: skip
    assert second["changed"]["gained"] == ["Q3"] and second["changed"]["lost"] == ["Q1"]
    assert (first["assigned"], second["assigned"]) == ({"Q1": 25}, {"Q2": 25})


def test_tuning_versions_name_the_editor_and_the_changes(events: list[dict[str, Any]]) -> None:
    first, second = (event["about"] for event in events if event["event"] == "tuning")
    assert (first["version"], first["was"], first["changes"]) == (1, None, [])
    assert (second["version"], second["was"], second["editor"], second["reason"]) == (2, 1, "ann", "more links")
    (change,) = second["changes"]
    assert (change["key"], change["old"], change["new"]) == ("NQUEUED_SAT_CAP", None, "200")


def test_actions_on_jobs_of_the_task(events: list[dict[str, Any]]) -> None:
    action, departure = (event["about"] for event in events[6:8])
    assert (action["jobs"], action["rule"], action["action"], action["queue"]) == (2, "queued", "reassigned", "Q1")
    assert (action["value_s"], action["limit_s"], departure["queue"]) == (90000, 86400, "Q1")
    status = events[3]["about"]
    assert status["status"] == "pending" and status["reason"] == "no_candidates"


def test_in_words(broker: Command) -> None:
    out = broker("history", str(TASK)).out
    for words in (
        "pending no_candidates x 3",
        ", 12:00 to 12:10",
        "was pending no_candidates",
        "lost Q1",
        "NQUEUED_SAT_CAP",
        "ann: more links",
        "2 jobs at Q1",
    ):
        assert words in out


def test_a_time_or_a_task_without_records(broker: Command) -> None:
    assert broker("history", "5").status == 4
    recent = broker("history", str(TASK), "--last", "1h")
    assert recent.status == 4 and "no record of task 77" in recent.err  # the clock of the test is real
    assert broker("history", "x").status == 2 and broker("history", str(TASK), "--last", "x").status == 2
