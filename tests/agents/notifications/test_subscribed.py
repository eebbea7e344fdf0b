"""Subscribers get one message when their task waits, and one when it has ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from agents.notifications.settings_file import FILE
from broker.notifications.answers import subscriptions
from broker.notifications.answers.subscriptions import NoSuchTarget, NotSubscribable, NotYourTask, Subscriber
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext
from tests.agents.notifications.telling import NOW, PLAIN, Told, cycle, rows

ANN = Subscriber("ann", "ann", may_all=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FILE).write_text(yaml.safe_dump(dict(PLAIN)))
    return tmp_path


@pytest.fixture
def grid(database: Database) -> Database:
    run(database, "INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status, username) "
                  "VALUES (1, 'mc.first', 'running', 'ann'), (2, 'mc.other', 'done', 'bob')")  # fmt: skip
    return database


def run(database: Database, statement: str, **values: Any) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement), values)


def subscribe(
    database: Database, folder: Path, to: str = "ann@example.org", task: int = 1, by: Subscriber = ANN
) -> Any:
    return subscriptions.subscribe(database, folder, task, to, by, NOW)


def add_waiting_work(database: Database, since: Any) -> None:
    run(
        database,
        "INSERT INTO broker.chunk_states (brokerage, jeditaskid, decision, decided_at, outcome, reason, outcome_since, "
        "waiting_since, last_seen_at, decisions, seen_again, candidate_count, jobs, assigned, state, work_state) "
        "VALUES ('production_job', 1, 1, :now, 'waiting', 'lowmemory', :since, :since, :seen, 1, 0, 0, 0, '{}', '', "
        "'')",
        now=NOW, since=since, seen=NOW + timedelta(minutes=55),
    )  # fmt: skip


def test_the_end_of_a_task_is_sent_once_to_each_subscriber(grid: Database, folder: Path) -> None:
    outbox = Told()
    subscribe(grid, folder)
    subscribe(grid, folder)
    answer = subscribe(grid, folder, "room")
    assert [subscription.to for subscription in answer.subscriptions] == ["ann@example.org", "room"]
    cycle(grid, outbox)
    assert outbox.messages == []
    run(grid, "UPDATE doma_panda.jedi_tasks SET status = 'finished', errordialog = 'some failed' WHERE jeditaskid = 1")
    cycle(grid, outbox, minutes=1)
    cycle(grid, outbox, minutes=2)
    assert [(name, address) for name, address, _ in outbox.messages] == [("ops", "ann@example.org"), ("room", "")]
    assert outbox.messages[0][2].sentence == "task 1 (mc.first) has ended: finished: some failed"
    assert len({message.incident for _, _, message in outbox.messages}) == 1
    with grid.read_snapshot() as connection:
        answer = subscriptions.subscriptions_of(
            QueryContext(connection, grid.names, NOW, None), 1, with_addresses=False
        )
    assert [(subscription.to, subscription.ended_at is not None) for subscription in answer.subscriptions] == [
        ("***", True),
        ("room", True),
    ]


def test_a_message_about_waiting_work_is_sent_once(grid: Database, folder: Path) -> None:
    outbox = Told()
    subscribe(grid, folder)
    add_waiting_work(grid, NOW)
    cycle(grid, outbox, minutes=59)
    assert outbox.messages == []
    for minutes in (60, 61, 70):
        cycle(grid, outbox, minutes=minutes)
    assert [message.sentence for _, _, message in outbox.messages] == [
        "task 1 (mc.first) has work that waits for 1.0 h: lowmemory"
    ]
    run(grid, "DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid = 1")
    cycle(grid, outbox, minutes=71)
    assert [message.code for _, _, message in outbox.messages] == ["task_waits", "task_gone"]


def test_nothing_is_sent_after_the_subscription_was_ended(grid: Database, folder: Path) -> None:
    outbox = Told()
    subscribe(grid, folder)
    answer = subscriptions.unsubscribe(grid, folder, 1, "ann@example.org", ANN, NOW)
    assert answer.subscriptions[0].ended_because == "ended by ann"
    with pytest.raises(NothingFound):
        subscriptions.unsubscribe(grid, folder, 1, "ann@example.org", ANN, NOW)
    run(grid, "UPDATE doma_panda.jedi_tasks SET status = 'done' WHERE jeditaskid = 1")
    cycle(grid, outbox)
    assert outbox.messages == []


@pytest.mark.parametrize(
    ("to", "task", "error", "words"),
    [
        ("ann@elsewhere.org", 1, NoSuchTarget, "addresses of example.org"),
        ("ann@example.org\r\nBcc: x@example.org", 1, NoSuchTarget, "is no mail address"),
        ("ops", 1, NoSuchTarget, "there are room"),
        ("room", 2, NotYourTask, "task 2 is not yours"),
        ("room", 3, NothingFound, "there is no task 3"),
    ],
)
def test_an_invalid_subscription_is_refused(
    grid: Database, folder: Path, to: str, task: int, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        subscribe(grid, folder, to, task)
    assert rows(grid, "SELECT 1 FROM broker.task_subscriptions") == []


def test_a_task_that_has_ended_or_has_too_many_subscriptions_takes_no_more(grid: Database, folder: Path) -> None:
    with pytest.raises(NotSubscribable, match="task 2 has ended: done"):
        subscribe(grid, folder, "room", 2, Subscriber("operator"))
    for number in range(20):
        subscribe(grid, folder, f"u{number}@example.org")
    with pytest.raises(NotSubscribable, match="too many"):
        subscribe(grid, folder, "room")
