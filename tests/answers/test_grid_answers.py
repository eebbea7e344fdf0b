"""Tasks, reasons, queues, nuclei, links, shares, users, jobs, pools, agents and rules, on the example grid."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from broker.decisions.answers.phrases import day_and_moment
from broker.decisions.answers.reason_codes import rules
from broker.domain.rejection_counts import unified_of
from broker.grid.answers.grid import DayCount, day_counts, totals_of_the_day
from broker.grid.answers.links import BadLinkCursor, links, page_of_links
from broker.grid.answers.models import LinkFilters, NucleusAnswer, QueueAnswer, QueueFilters
from broker.grid.answers.queue import near_miss_sentence, queue_answer, queue_sentences
from broker.grid.answers.queues import nuclei, nucleus_answer, queues
from broker.grid.answers.shares import shares
from broker.history.answers.history import history
from broker.history.answers.job import job_answer
from broker.history.answers.list_models import ReasonFilters, TaskFilters
from broker.history.answers.reasons import reasons
from broker.history.answers.stored_states import chunk_states
from broker.history.answers.tasks import task_list
from broker.history.answers.user import throttle_sentences, user_answer
from broker.pools.answers.pool import pool_answer
from broker.service.answers.alarms import alarms
from broker.service.answers.overview import rejection_map
from broker.service.answers.service import service_answer
from broker.store.query_context import Asking, NothingFound
from tests.answers.demo_database import BUSY_USER, DRAWN, LINKS_FULL, NOON, THROTTLED, TOO_MUCH_MEMORY

Ask = Callable[..., Any]


@pytest.mark.slow
def test_tasks_that_wait_come_first_each_with_its_main_reason(ask: Ask) -> None:
    found = ask(task_list)
    waiting = [line for line in found.tasks if line.chunks_waiting]
    assert found.total == len(found.tasks) == 93 and list(found.tasks[: len(waiting)]) == waiting
    why = {line.task.jeditaskid: line.main_code for line in waiting}
    assert why[TOO_MUCH_MEMORY] == "lowmemory" and why[LINKS_FULL] == "links_full"
    assert why[THROTTLED] == "throttled_running_jobs"


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
def test_filters_of_tasks(ask: Ask, filters: dict[str, Any], count: int) -> None:
    assert ask(task_list, TaskFilters(**filters)).total == count


def test_tasks_by_queue_and_page_by_page(ask: Ask) -> None:
    at_bnl = ask(task_list, TaskFilters(queue="bnl")).tasks
    assert at_bnl and all("BNL" in line.queues for line in at_bnl)
    for filters in ({}, {"since": NOON - timedelta(hours=1)}):
        every = [line.task.jeditaskid for line in ask(task_list, TaskFilters(**filters)).tasks]
        seen: list[int] = []
        after: int | None = 0
        while after is not None and len(seen) <= len(every):
            page = ask(task_list, TaskFilters(limit=8, after=after, **filters))
            assert page.total == len(every)
            seen += [line.task.jeditaskid for line in page.tasks]
            after = page.next_after
        assert seen == every and len(set(seen)) == len(seen) > 8


def test_reasons_add_up_to_what_waits_most_frequent_first(ask: Ask) -> None:
    found = ask(reasons)
    for brokerage, number in found.waiting.items():
        assert sum(line.chunks for line in found.lines if line.brokerage == brokerage) == number
    chunks = [line.chunks for line in found.lines]
    assert chunks == sorted(chunks, reverse=True) and sum(found.waiting.values()) == 9
    assert all(line.chunks_before is None for line in found.lines)  # nothing is on record of an hour before
    only = ask(reasons, ReasonFilters(brokerage="analysis_job"))
    assert {line.main_code for line in only.lines} == {"lowmemory", "throttled_running_jobs"}


def test_a_queue_says_what_it_got_what_rejected_it_and_what_it_would_get(ask: Ask) -> None:
    found: QueueAnswer = ask(queue_answer, "bnl")
    (production,) = [one for one in found.brokerages if one.brokerage == "production_job"]
    rejected = sum(one.decisions for one in production.rejected)
    assert production.considered == production.chosen + rejected and production.jobs_placed > 0
    misses = [miss for miss in production.near_misses if miss.field == "queue.maxrss" and miss.to == 32000.0]
    assert [(miss.now, miss.chunks, miss.jobs) for miss in misses] == [(24000.0, 2, 40)]
    assert near_miss_sentence(misses[0]) == (
        "2 chunks with 40 jobs would come if maxrss of BNL/MCORE_HIMEM were 32,000 MB instead of 24,000 MB."
    )
    assert {one.field for one in found.limits} >= {"queue.maxrss", "queue.maxtime", "queue.maxwdir"}
    assert found.links and found.not_a_candidate == () and found.jobs.running > 0
    assert any("considered in" in sentence for sentence in queue_sentences(found))


def test_what_cycles_counted_is_what_their_decisions_say(ask: Ask) -> None:
    def both(asking: Asking) -> tuple[dict[tuple[str, str], DayCount], dict[tuple[str, str], DayCount]]:
        by_hand: defaultdict[tuple[str, str], DayCount] = defaultdict(DayCount)
        for state in chunk_states(asking.connection, asking.now):
            for queue in {unified_of(name) for name in state.chosen}:
                by_hand[state.brokerage, queue].chosen += 1
            for queue, code in {**state.counts.by_queue, **state.counts.not_candidates}.items():
                by_hand[state.brokerage, queue].rejected[code] += 1
            for name, jobs in state.assigned.items():
                by_hand[state.brokerage, unified_of(name)].placed += jobs
        counted = {
            (brokerage, queue): count
            for brokerage, some in totals_of_the_day(asking).items()
            for queue, count in day_counts(some).items()
        }
        return dict(by_hand), counted

    by_hand, counted = ask(both)
    assert counted == by_hand and len(counted) > 100
    bnl: QueueAnswer = ask(queue_answer, "BNL", evaluate=False)
    line = next(one for one in ask(queues).queues if one.queue == "BNL")
    assert (line.considered, line.chosen, line.placed) == tuple(
        sum(getattr(one, name) for one in bnl.brokerages) for name in ("considered", "chosen", "jobs_placed")
    )
    jobs = by_hand["production_job", "BNL"].placed + by_hand["analysis_job", "BNL"].placed
    assert line.placed == jobs > 0
    rejected = {one.code: one.decisions for one in bnl.brokerages[1].rejected}
    assert rejected == dict(by_hand["production_job", "BNL"].rejected)
    (drawn,) = [one for one in ask(nuclei).nuclei if one.nucleus == "RAL-LCG2"]
    assert drawn.collected == by_hand["production_task", "RAL-LCG2"].placed > 0


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        (task_list, 3),  # what throttles the throttled ones
        (reasons, 0),
        (queues, 0),
        (nuclei, 0),
        (rules, 0),
        (rejection_map, 0),
        (alarms, 0),
    ],
)
def test_no_list_scans_decisions(
    ask: Ask, asked: Callable[..., Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    execute = psycopg.Cursor.execute

    def look(self: Any, query: Any, values: Any = None, **others: Any) -> Any:
        statement = query.decode() if isinstance(query, bytes) else str(query)
        if re.search(r"broker\.(stored_)?decisions\b", statement):
            assert "id = ANY(" in statement
            read.append(len(values["ids"]))
        return execute(self, query, values, **others)

    monkeypatch.setattr(psycopg.Cursor, "execute", look)
    ask(asked)
    assert sum(read) <= most


def test_only_the_states_of_what_waits_at_a_brokerage(ask: Ask) -> None:
    every = ask(lambda asking: chunk_states(asking.connection, asking.now))
    some = ask(lambda asking: chunk_states(asking.connection, asking.now, waiting_at={"production_job"}))
    assert some == [one for one in every if one.brokerage == "production_job" and one.outcome != "brokered"] != []


def test_a_queue_that_is_no_candidate_at_all_says_why(ask: Ask) -> None:
    found: QueueAnswer = ask(queue_answer, "BEIJING-LCG2", evaluate=False)
    codes = {one.brokerage: one.compared.value for one in found.not_a_candidate if one.compared is not None}
    assert codes["production_job"] == "paused"
    assert next(iter(queue_sentences(found))).startswith("Not a candidate of")


def test_queues_and_those_that_are_idle(ask: Ask) -> None:
    every, idle = ask(queues), ask(queues, QueueFilters(idle=True))
    assert len(every.queues) == 76 and {line.queue for line in idle.queues} < {line.queue for line in every.queues}
    assert all(line.placed == 0 for line in idle.queues)
    assert [line.queue for line in ask(queues, QueueFilters(status="paused")).queues] == ["BEIJING-LCG2"]
    with pytest.raises(NothingFound, match="did you mean BNL"):
        ask(queue_answer, "BNLX")


def test_a_nucleus_with_the_probability_of_each_task(ask: Ask) -> None:
    found: NucleusAnswer = ask(nucleus_answer, "ral-lcg2")
    drawn = {one.jeditaskid: one for one in found.tasks}[DRAWN]
    assert drawn.drawn and 0 < drawn.probability < 1
    assert found.line.considered == found.line.candidate + sum(one.decisions for one in found.rejected)
    assert "RAL" in found.queues and len(ask(nuclei).nuclei) > 10
    with pytest.raises(NothingFound):
        ask(nucleus_answer, "NOWHERE")


def test_links_that_are_full_against_their_cap(ask: Ask) -> None:
    full = ask(links, LinkFilters(full=True))
    assert full.total == len(full.links) > 0
    assert all(line.queued_files > line.cap_files for line in full.links)
    files = [line.queued_files for line in full.links]
    assert files == sorted(files, reverse=True)
    one = ask(links, LinkFilters(nucleus="sara-matrix", limit=3))
    assert {line.nucleus for line in one.links} == {"SARA-MATRIX"} and one.total > 3


def test_pages_of_links_make_the_whole_list(ask: Ask) -> None:
    whole, found, after = ask(links), [], None
    for _ in range(whole.total):
        page = ask(links, LinkFilters(limit=max(2, whole.total // 3), after=after))
        assert page.total == whole.total
        found += page.links
        after = page.next_after
        if after is None:
            break
    assert tuple(found) == whole.links and whole.next_after is None and whole.total > 6
    first = page_of_links(whole, None, 2)
    moved = whole.model_copy(update={"links": whole.links[2:]})
    assert page_of_links(moved, first.next_after, 2).links == whole.links[2:4], "what is gone takes nothing with it"


@pytest.mark.parametrize(
    "after",
    ["", "x", "[1]", '["1","a","b"]', "[1,2,3]", "[" * 5000, "null", '[NaN,"a","b"]', f'[1{"0" * 999},"a","b"]'],
)
def test_a_place_that_is_none_in_the_links_is_refused(ask: Ask, after: str) -> None:
    with pytest.raises(BadLinkCursor, match="no place in the list of links"):
        ask(links, LinkFilters(after=after))


def test_shares_add_up_to_their_parents(ask: Ask) -> None:
    lines = ask(shares).shares
    tops = [line for line in lines if line.parent is None]
    assert sum(line.target_percent for line in tops) == pytest.approx(100)
    for top in tops:
        children = [line for line in lines if line.parent == top.gshare]
        assert sum(line.target_percent for line in children) == pytest.approx(top.target_percent)
        assert sum(line.running_jobs for line in children) <= top.running_jobs


def test_a_user_sees_throttles_caps_and_who_can_do_something(ask: Ask) -> None:
    found = ask(user_answer, BUSY_USER.upper())
    assert (found.user, found.running_jobs) == (BUSY_USER, 225.0)
    assert [(one.condition, one.figure, one.cap) for one in found.throttles] == [("running_jobs", 225.0, 150.0)]
    assert found.advice == {"throttled_running_jobs": "wait"}
    assert {one.condition: one.cap for one in found.caps}["queued_jobs"] == 300.0
    with pytest.raises(NothingFound, match="did you mean etanaka"):
        ask(user_answer, "etanak")


def test_rules_with_how_often_they_rejected(ask: Ask) -> None:
    found = ask(rules, "production_job")
    by_rule = {line.rule: line for line in found.rules}
    assert by_rule["memory_max"].decides_24h == 1 and by_rule["status"].rejections_24h > 0
    assert [line.position for line in found.rules] == list(range(1, len(found.rules) + 1))


def test_agents_with_their_cycles(ask: Ask) -> None:
    found = ask(service_answer)
    line = {one.agent: one for one in found.agents}["production_job"]
    assert (line.last_outcome, line.cycles_24h, line.failed_24h, line.pause) == ("done", 1, 0, None)
    assert line.mean_s is not None and line.age_s is not None and line.age_s >= 0


def test_a_job_wherever_it_is(ask: Ask) -> None:
    with pytest.raises(NothingFound, match="there is no job 1"):
        ask(job_answer, 1)
    with pytest.raises(NothingFound, match="there is no pool x"):
        ask(pool_answer, "x")


def test_the_history_names_the_main_reason(ask: Ask) -> None:
    events = ask(history, TOO_MUCH_MEMORY).events
    (decision,) = [event for event in events if event.event == "decision"]
    assert decision.about["main_code"] == "lowmemory" and decision.about["times"] == 1
    with pytest.raises(NothingFound):
        ask(history, TOO_MUCH_MEMORY, NOON + timedelta(hours=1))


def test_a_throttle_says_when_it_was_decided_and_when_again(ask: Ask) -> None:
    found = ask(user_answer, BUSY_USER)
    (line,) = [one for one in found.tasks if one.throttle is not None]
    (sentence,) = throttle_sentences(found)
    assert line.decided_at is not None and line.task.next_try_at is not None
    assert f"; decided {day_and_moment(line.decided_at)}, next try {day_and_moment(line.task.next_try_at)}." in sentence
    task = line.task.model_copy(update={"redecide": "each_cycle", "next_try_at": None})
    again = found.model_copy(update={"tasks": (line.model_copy(update={"task": task}),)})
    assert [one.endswith(" UTC, decided again each cycle.") for one in throttle_sentences(again)] == [True]
