"""Tasks, reasons, users, jobs and the history of a task, on the example grid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from broker.domain.words import day_and_moment
from broker.history.answers.history import history
from broker.history.answers.job import job_answer
from broker.history.answers.list_models import ReasonFilters, TaskFilters
from broker.history.answers.reasons import reasons
from broker.history.answers.stored_states import chunk_states
from broker.history.answers.tasks import task_list
from broker.history.answers.user import throttle_sentences, user_answer
from broker.store.query_context import NothingFound
from tests.brokered_demo import BUSY_USER, LINKS_FULL, NOON, THROTTLED, TOO_MUCH_MEMORY

Ask = Callable[..., Any]


@pytest.mark.slow
def test_waiting_tasks_come_first_with_their_main_reason(query_demo: Ask) -> None:
    answer = query_demo(task_list)
    waiting = [line for line in answer.tasks if line.chunks_waiting]
    assert answer.total == len(answer.tasks) == 93 and list(answer.tasks[: len(waiting)]) == waiting
    main_codes = {line.task.jeditaskid: line.main_code for line in waiting}
    assert main_codes[TOO_MUCH_MEMORY] == "lowmemory" and main_codes[LINKS_FULL] == "links_full"
    assert main_codes[THROTTLED] == "throttled_running_jobs"


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"user": "ETANAKA"}, 1),
        ({"user": "nobody"}, 0),
        ({"reason": "lowmemory"}, 2),
        ({"reason": "no_candidates", "gshare": "MC 20"}, 2),
        ({"status": "throttled"}, 1),
        ({"status": "assigning"}, 1),
        ({"nucleus": "fzk-lcg2", "reason": "lowmemory"}, 1),
        ({"since": NOON}, 93),
        ({"since": NOON + timedelta(seconds=1)}, 0),
    ],
)
def test_filters_of_tasks(query_demo: Ask, filters: dict[str, Any], count: int) -> None:
    assert query_demo(task_list, TaskFilters(**filters)).total == count


def test_tasks_by_queue_and_page_by_page(query_demo: Ask) -> None:
    at_bnl = query_demo(task_list, TaskFilters(queue="bnl")).tasks
    assert at_bnl and all("BNL" in line.queues for line in at_bnl)
    for filters in ({}, {"since": NOON - timedelta(hours=1)}):
        all_tasks = [line.task.jeditaskid for line in query_demo(task_list, TaskFilters(**filters)).tasks]
        collected: list[int] = []
        after: int | None = 0
        while after is not None and len(collected) <= len(all_tasks):
            page = query_demo(task_list, TaskFilters(limit=8, after=after, **filters))
            assert page.total == len(all_tasks)
            collected += [line.task.jeditaskid for line in page.tasks]
            after = page.next_after
        assert collected == all_tasks and len(set(collected)) == len(collected) > 8


def test_reasons_add_up_to_the_waiting_chunks_most_frequent_first(query_demo: Ask) -> None:
    answer = query_demo(reasons)
    for brokerage, number in answer.waiting.items():
        assert sum(line.chunks for line in answer.lines if line.brokerage == brokerage) == number
    chunks = [line.chunks for line in answer.lines]
    assert chunks == sorted(chunks, reverse=True) and sum(answer.waiting.values()) == 9
    assert all(line.chunks_before is None for line in answer.lines)  # no record from an hour before
    analysis = query_demo(reasons, ReasonFilters(brokerage="analysis_job"))
    assert {line.main_code for line in analysis.lines} == {"lowmemory", "throttled_running_jobs"}


def test_states_can_be_limited_to_what_waits_at_a_brokerage(query_demo: Ask) -> None:
    all_states = query_demo(lambda query: chunk_states(query.connection, query.now))
    waiting = query_demo(lambda query: chunk_states(query.connection, query.now, waiting_at={"production_job"}))
    assert (
        waiting
        == [state for state in all_states if state.brokerage == "production_job" and state.outcome != "brokered"]
        != []
    )


def test_a_user_sees_throttles_caps_and_advice(query_demo: Ask) -> None:
    answer = query_demo(user_answer, BUSY_USER.upper())
    assert (answer.user, answer.running_jobs) == (BUSY_USER, 225.0)
    assert [(throttle.condition, throttle.figure, throttle.cap) for throttle in answer.throttles] == [
        ("running_jobs", 225.0, 150.0)
    ]
    assert answer.advice == {"throttled_running_jobs": "wait"}
    assert {throttle.condition: throttle.cap for throttle in answer.caps}["queued_jobs"] == 300.0
    with pytest.raises(NothingFound, match="did you mean etanaka"):
        query_demo(user_answer, "etanak")


def test_the_history_names_the_main_reason(query_demo: Ask) -> None:
    events = query_demo(history, TOO_MUCH_MEMORY).events
    (decision,) = [event for event in events if event.event == "decision"]
    assert decision.about["main_code"] == "lowmemory" and decision.about["times"] == 1
    with pytest.raises(NothingFound):
        query_demo(history, TOO_MUCH_MEMORY, NOON + timedelta(hours=1))


def test_a_throttle_says_when_it_was_decided_and_when_it_is_retried(query_demo: Ask) -> None:
    answer = query_demo(user_answer, BUSY_USER)
    (line,) = [task_line for task_line in answer.tasks if task_line.throttle is not None]
    (sentence,) = throttle_sentences(answer)
    assert line.decided_at is not None and line.task.next_try_at is not None
    assert f"; decided {day_and_moment(line.decided_at)}, next try {day_and_moment(line.task.next_try_at)}." in sentence
    task = line.task.model_copy(update={"redecide": "each_cycle", "next_try_at": None})
    each_cycle = answer.model_copy(update={"tasks": (line.model_copy(update={"task": task}),)})
    assert [text.endswith(" UTC, decided again each cycle.") for text in throttle_sentences(each_cycle)] == [True]


def test_an_unknown_job(query_demo: Ask) -> None:
    with pytest.raises(NothingFound, match="there is no job 1"):
        query_demo(job_answer, 1)
