"""The history of a task: folded repeats, the rule that took or released each queue, and changes at its queues."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from broker.domain.decisions import Candidate, Decision, DecisionRecord, FunnelStep, Origin
from broker.feeds.statements.feed_runs import ChangeRecord
from broker.feeds.statements.queue_pins import Pin
from broker.history.answers.history import ConcurrentChanges, History, beside_events, event_sentence, history
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing
from broker.store.query_context import QueryContext
from tests.conftest import TestServer

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
TASK = 77
WHOLE = {"Q1": "status", "Q2": "lowmemory", "Q3": "lowmemory"}


def save_decision(database: Database, minute: int, rejected: dict[str, str], *notes: str) -> None:
    """Save a decision that chooses each of the three queues without a rejection."""
    chosen = tuple(Candidate(name, 1.0, {}) for name in WHOLE if name not in rejected)
    steps, remaining = [], len(WHOLE)
    for code in dict.fromkeys(rejected.values()):
        number = list(rejected.values()).count(code)
        steps.append(FunnelStep(code, remaining, remaining - number))
        remaining -= number
    outcome, reason = ("brokered", "") if chosen else ("pending", "no_candidates")
    decision = Decision(TASK, 8, 1000.0, "production_job", outcome, reason, chosen, rejected, tuple(steps), notes)  # type: ignore[arg-type]
    origin = Origin(1, NOON + timedelta(minutes=minute), "s", 1, 1, "0.1.0")
    record = DecisionRecord(decision, {chosen[0].name: 5} if chosen else {})
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, [record])


PIN = """
    INSERT INTO broker.queue_pins (queue, field, value, reason, editor, set_at, until)
    VALUES ('Q1', 'status', '"brokeroff"', 'disk broken', 'ann', '2026-08-01T12:18Z', '2026-08-01T18:00Z')"""
RUN = """
    INSERT INTO broker.feed_runs (feed, by_hand, started_at, outcome, documents, changes, left_out)
    VALUES ('cric', false, '2026-08-01T12:19Z', 'done', '{}', '{}', '{}') RETURNING id"""
CHANGE = """
    INSERT INTO broker.feed_changes (run_id, position, changed_at, table_name, row_key, kind, fields)
    VALUES (:run, 1, '2026-08-01T12:19Z', 'schedconfig_json', ARRAY['Q2'], 'changed',
            '{"maxrss": [8000, 16000], "corepower": [10, 11], "ignored": [1, 2]}')"""


@pytest.fixture(scope="module")
def task_history(test_server: TestServer) -> Iterator[History]:
    """The task waits three times, gains a queue that a rule released, and loses it to another rule and a source."""
    with test_server.opened(test_server.create()) as database:
        for minute in (0, 5, 10):
            save_decision(database, minute, WHOLE)
        save_decision(database, 20, {"Q1": "status", "Q3": "lowmemory"})
        save_decision(database, 30, {"Q1": "status", "Q2": "link_unusable"}, "source_stale:links")
        save_decision(database, 40, {"Q1": "status", "Q3": "lowmemory"})
        with database.begin() as connection:
            connection.execute(sa.text(PIN))
            connection.execute(sa.text(CHANGE), {"run": connection.execute(sa.text(RUN)).scalar_one()})
        with database.read_snapshot() as connection:
            yield history(QueryContext(connection, database.names, NOON + timedelta(hours=1)), TASK)


def sentences(task_history: History, kind: str) -> list[str]:
    return [event_sentence(event) for event in task_history.events if event.event == kind]


def test_repeats_are_folded_with_their_main_reason(task_history: History) -> None:
    first = sentences(task_history, "decision")[0]
    assert first == ("production_job dataset 8, ramcount 1000: pending lowmemory x 3; decision 1, 12:00 to 12:10")


def test_the_rule_that_took_or_released_each_queue(task_history: History) -> None:
    _, release, loss, _ = [event.about for event in task_history.events if event.event == "decision"]
    assert release["released_by"] == {"Q2": "lowmemory"} and release["changed"]["gained"] == ["Q2"]
    assert loss["taken_by"] == {"Q2": "link_unusable"} and loss["released_by"] == {"Q3": "lowmemory"}
    assert "gained Q2 from lowmemory" in sentences(task_history, "decision")[1]
    assert "lost Q2 to link_unusable" in sentences(task_history, "decision")[2]


def test_a_source_becomes_unusable_and_usable_again(task_history: History) -> None:
    assert sentences(task_history, "source") == ["source links is stale", "source links is ok"]


def test_changes_of_queues_that_were_gained_or_lost(task_history: History) -> None:
    assert sentences(task_history, "queue") == ["queue Q2: corepower 10 -> 11, maxrss 8000 -> 16000"]
    assert sentences(task_history, "pin") == []  # the task neither gained nor lost the pinned queue


def test_events_come_in_the_order_of_time(task_history: History) -> None:
    assert [event.at for event in task_history.events] == sorted(event.at for event in task_history.events)


def pin(**more: object) -> Pin:
    values = {"id": 1, "queue": "Q1", "field": "status", "value": "brokeroff", "reason": "disk", "editor": "ann"}
    times = {"set_at": NOON, "until": NOON + timedelta(hours=2), "ended_at": None, "ended_by": None}
    return Pin(**{**values, **times, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({}, ["Q1: ann holds status at brokeroff: disk"]),
        (
            {"ended_at": NOON + timedelta(minutes=30)},
            ["Q1: ann holds status at brokeroff: disk", "Q1: status is held no longer"],
        ),
        ({"set_at": NOON - timedelta(minutes=1)}, []),
    ],
)  # fmt: skip
def test_pins_between_the_first_event_and_now(times: dict[str, datetime], words: list[str]) -> None:
    beside = ConcurrentChanges({}, {"Q1": [pin(**times)]})
    events = beside_events(beside, NOON, NOON + timedelta(hours=1))
    assert [event_sentence(event) for event in events] == words


def test_changes_before_the_first_event_do_not_count() -> None:
    change = ChangeRecord(NOON - timedelta(seconds=1), "schedconfig_json", ("Q1",), "changed", {"status": ["a", "b"]})
    assert not list(beside_events(ConcurrentChanges({"Q1": [change]}, {}), NOON, NOON))
