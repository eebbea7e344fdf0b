"""Lists that the database counts: the same as from the states of all tasks one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from broker.decisions.answers import decision as decisions
from broker.domain.decisions import Decision
from broker.history.answers import tasks
from broker.history.answers.list_models import TaskFilters
from broker.history.answers.stored_states import (
    changes_since,
    chunk_states,
    waiting_groups,
    waiting_long,
    waiting_states,
)
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from broker.store.summaries.newest_states import tasks_of
from tests.store.summaries.test_decision_summaries import NOW, add

TASKS, SEED = 60, 3
_TASK = sa.text("""
    INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status, username, gshare, currentpriority, prodsourcelabel)
    VALUES (:task, 'a task', :status, 'somebody', :share, :priority, 'managed')""")
# the newest last, of each task another number up to three
_CHANGED = sa.text("""
    UPDATE broker.chunk_states SET outcome_since = last_seen_at, changed_at = ARRAY(
        SELECT last_seen_at - make_interval(mins => CAST(back AS int))
        FROM generate_series(jeditaskid % 4 - 1, 0, -1) AS back)""")
FILTERS = (
    {"status": "pending"}, {"status": "brokered"}, {"status": "throttled"}, {"status": "running", "reason": "full"},
    {"reason": "full"}, {"reason": "disk", "gshare": "MC"}, {"queue": "cern"}, {"queue": "BNL", "status": "pending"},
    {"since": NOW - timedelta(minutes=90)}, {"reason": "full", "limit": 3}, {"user": "nobody", "reason": "full"},
)  # fmt: skip


@pytest.fixture
def asked(database: Database) -> Iterator[Asking]:
    """Tasks with some chunks each, of several brokerages, decided about at a few instants."""
    draw, number = random.Random(SEED), 0
    with database.begin() as connection:
        for task in range(1, TASKS):
            status, share = draw.choice(["running", "pending", "done", None]), draw.choice(["MC", "Data", None])
            values = {"task": task, "status": status, "share": share, "priority": draw.choice([None, 1, 900])}
            connection.execute(_TASK, values)
    states = []
    for task in range(1, TASKS + 3):
        for brokerage in draw.sample(["production_task", "production_job", "analysis_job"], draw.choice([0, 1, 1, 2])):
            for dataset in range(draw.choice([1, 1, 3])):
                number += 1
                outcome = draw.choice(["brokered", "pending", "throttled"])
                waits = NOW - timedelta(hours=draw.choice([2, 3]))
                places = draw.choice(["{}", '{"CERN/MCORE": 3, "BNL": 1}', '{"BNL/SCORE": 2}'])
                states.append({
                    "brokerage": brokerage, "jeditaskid": task, "datasetid": dataset or None, "decision": number,
                    "ramcount": draw.choice([None, 2000.0]), "outcome": outcome,
                    "reason": "" if outcome == "brokered" else draw.choice(["no_candidates", "disk"]),
                    "main_reason": "" if outcome == "brokered" else draw.choice(["full", "disk"]),
                    "waiting_since": None if outcome == "brokered" else waits,
                    "last_seen_at": NOW - timedelta(hours=draw.choice([0, 1, 2, 30])),
                    "assigned": places if outcome == "brokered" else "{}",
                })  # fmt: skip
    add(database, *states)
    with database.begin() as connection:
        connection.execute(_CHANGED)
    with database.read_snapshot() as connection:
        yield Asking(connection, database.names, NOW)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_filtered_list_is_that_of_all_tasks(
    asked: Asking, filters: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = TaskFilters.model_validate(filters)
    found = tasks.task_list(asked, wanted)
    monkeypatch.setattr(tasks, "decided_after", lambda connection, moment: True)
    assert found == tasks.task_list(asked, wanted)
    assert found.total > 0 or "user" in filters


def test_what_waits_by_reason_adds_up_to_the_states(asked: Asking) -> None:
    groups, considered = waiting_groups(asked, 3)
    states, of_all = waiting_states(asked.connection, NOW)
    assert considered == of_all and sum(one.chunks for one in groups) == len(states) > 20
    for one in groups:
        own = [
            state
            for state in states
            if (state.brokerage, state.reason, state.main_code) == (one.brokerage, one.reason, one.main_code)
        ]
        order = sorted((state.waiting_since or datetime.max.replace(tzinfo=UTC), state.jeditaskid) for state in own)
        numbers = list(dict.fromkeys(task for _, task in order))
        assert (one.chunks, one.tasks, list(one.such_as)) == (len(own), len(numbers), numbers[:3])
        assert one.oldest_since == order[0][0]


def test_the_place_in_a_share_is_that_among_the_states(asked: Asking) -> None:
    states = chunk_states(asked.connection, NOW, waiting_at=["production_job"])
    places = set()
    chunks = [(one.jeditaskid, one.datasetid, one.ramcount) for one in states]
    for task, dataset, ramcount in [(9999, None, None), *chunks]:
        made = Decision(
            jeditaskid=task, datasetid=dataset, ramcount=ramcount, brokerage="production_job", outcome="pending",
            reason="no_candidates", candidates=(), rejected={}, funnel=(), notes=(),
        )  # fmt: skip
        found = decisions.position_of(asked, made, None)
        assert found == decisions.position_of(asked, made, states)
        places.add(None if found is None else (found.place, found.of))
    assert None in places and len(places) > 10


@pytest.mark.parametrize("least", [1, 2, 3, 4])
@pytest.mark.parametrize("hours", [1.5, 2, 2.5, 3.5])
def test_what_the_sums_of_the_states_say_is_the_same_as_asked_for(asked: Asking, least: int, hours: float) -> None:
    connection, before, since = asked.connection, NOW - timedelta(hours=hours), NOW - timedelta(hours=5)
    alone = waiting_long(asked, before), changes_since(asked, since, least)
    after = Asking(connection, asked.names, NOW)
    waiting_groups(after, 3)
    assert (waiting_long(after, before), changes_since(after, since, least)) == alone
    longer = NOW - timedelta(days=3)
    assert changes_since(after, longer, least) == changes_since(asked, longer, least)
    assert bool(alone[0][0]) == (hours < 3) and bool(alone[1]) == (least < 4)


def test_sums_of_later_states_change_nothing_of_an_instant_of_the_past(asked: Asking) -> None:
    past, since = NOW - timedelta(minutes=90), NOW - timedelta(hours=5)
    before = past - timedelta(minutes=1)
    alone, after = Asking(asked.connection, asked.names, past), Asking(asked.connection, asked.names, past)
    waiting_groups(after, 3)
    assert waiting_long(after, before) == waiting_long(alone, before)
    assert changes_since(after, since, 1) == changes_since(alone, since, 1) != []


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([(1, 5)], (1, [1])),
        ([(2, 5), (1, 5)], (2, [1, 2])),
        ([(1, 9), (2, 5), (1, 4)], (2, [1, 2])),
        ([(1, 5), (2, 6), (3, 7), (4, 8)], (4, [1, 2, 3])),
        ([(7, 1)] * 40 + [(3, 2)] * 40 + [(9, 3), (8, 3)], (4, [7, 3, 8])),
        ([(-1, 2**50), (2**60, -5)], (2, [2**60, -1])),
    ],
    ids=["one", "equals", "the first chunk counts", "more than asked for", "many of few tasks", "large numbers"],
)
def test_the_tasks_that_have_waited_longest(chunks: list[tuple[int, int]], expected: tuple[int, list[int]]) -> None:
    tasks, since = np.array(chunks, np.int64).T
    assert tasks_of(tasks, since, 3) == expected
