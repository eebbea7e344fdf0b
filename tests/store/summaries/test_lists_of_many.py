"""Lists counted by the database equal lists built from every task's states."""

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
from broker.store.query_context import QueryContext
from broker.store.summaries.newest_states import tasks_of
from tests.store.summaries.test_decision_summaries import NOW, add

TASKS, SEED = 60, 3
_TASK = sa.text("""
    INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status, username, gshare, currentpriority, prodsourcelabel)
    VALUES (:task, 'a task', :status, 'somebody', :share, :priority, 'managed')""")
# the newest last; the number per task varies up to three
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
def context(database: Database) -> Iterator[QueryContext]:
    """The context of requests about tasks with several chunks, brokerages and decision times."""
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
        yield QueryContext(connection, database.names, NOW)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_filtered_list_equals_the_list_over_all_tasks(
    context: QueryContext, filters: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    task_filters = TaskFilters.model_validate(filters)
    filtered_list = tasks.task_list(context, task_filters)
    monkeypatch.setattr(tasks, "decided_after", lambda connection, moment: True)
    assert filtered_list == tasks.task_list(context, task_filters)
    assert filtered_list.total > 0 or "user" in filters


def test_waiting_groups_add_up_to_the_states(context: QueryContext) -> None:
    groups, considered_by_groups = waiting_groups(context, 3)
    states, considered_by_states = waiting_states(context.connection, NOW)
    assert considered_by_groups == considered_by_states and sum(group.chunks for group in groups) == len(states) > 20
    for group in groups:
        group_states = [
            state
            for state in states
            if (state.brokerage, state.reason, state.main_code) == (group.brokerage, group.reason, group.main_code)
        ]
        order = sorted(
            (state.waiting_since or datetime.max.replace(tzinfo=UTC), state.jeditaskid) for state in group_states
        )
        numbers = list(dict.fromkeys(task for _, task in order))
        assert (group.chunks, group.tasks, list(group.such_as)) == (len(group_states), len(numbers), numbers[:3])
        assert group.oldest_since == order[0][0]


def test_the_place_in_a_share_equals_the_place_among_the_states(context: QueryContext) -> None:
    states = chunk_states(context.connection, NOW, waiting_at=["production_job"])
    places = set()
    chunks = [(state.jeditaskid, state.datasetid, state.ramcount) for state in states]
    for task, dataset, ramcount in [(9999, None, None), *chunks]:
        decision = Decision(
            jeditaskid=task, datasetid=dataset, ramcount=ramcount, brokerage="production_job", outcome="pending",
            reason="no_candidates", candidates=(), rejected={}, funnel=(), notes=(),
        )  # fmt: skip
        position = decisions.position_of(context, decision, None)
        assert position == decisions.position_of(context, decision, states)
        places.add(None if position is None else (position.place, position.of))
    assert None in places and len(places) > 10


@pytest.mark.parametrize("least", [1, 2, 3, 4])
@pytest.mark.parametrize("hours", [1.5, 2, 2.5, 3.5])
def test_sums_of_the_states_equal_separate_queries(context: QueryContext, least: int, hours: float) -> None:
    connection, before, since = context.connection, NOW - timedelta(hours=hours), NOW - timedelta(hours=5)
    separate_answers = waiting_long(context, before), changes_since(context, since, least)
    with_sums = QueryContext(connection, context.names, NOW)
    waiting_groups(with_sums, 3)
    assert (waiting_long(with_sums, before), changes_since(with_sums, since, least)) == separate_answers
    longer = NOW - timedelta(days=3)
    assert changes_since(with_sums, longer, least) == changes_since(context, longer, least)
    assert bool(separate_answers[0][0]) == (hours < 3) and bool(separate_answers[1]) == (least < 4)


def test_sums_of_later_states_do_not_affect_a_past_instant(context: QueryContext) -> None:
    past, since = NOW - timedelta(minutes=90), NOW - timedelta(hours=5)
    before = past - timedelta(minutes=1)
    without_sums, with_sums = (
        QueryContext(context.connection, context.names, past),
        QueryContext(context.connection, context.names, past),
    )
    waiting_groups(with_sums, 3)
    assert waiting_long(with_sums, before) == waiting_long(without_sums, before)
    assert changes_since(with_sums, since, 1) == changes_since(without_sums, since, 1) != []


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
def test_the_tasks_waiting_longest(chunks: list[tuple[int, int]], expected: tuple[int, list[int]]) -> None:
    tasks, since = np.array(chunks, np.int64).T
    assert tasks_of(tasks, since, 3) == expected
