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
from broker.store.query_context import NothingFound, QueryContext
from tests.brokered_demo import BUSY_USER, DRAWN, LINKS_FULL, NOON, THROTTLED, TOO_MUCH_MEMORY

Ask = Callable[..., Any]


@pytest.mark.slow
def test_waiting_tasks_come_first_with_their_main_reason(ask: Ask) -> None:
    answer = ask(task_list)
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
def test_filters_of_tasks(ask: Ask, filters: dict[str, Any], count: int) -> None:
    assert ask(task_list, TaskFilters(**filters)).total == count


def test_tasks_by_queue_and_page_by_page(ask: Ask) -> None:
    at_bnl = ask(task_list, TaskFilters(queue="bnl")).tasks
    assert at_bnl and all("BNL" in line.queues for line in at_bnl)
    for filters in ({}, {"since": NOON - timedelta(hours=1)}):
        all_tasks = [line.task.jeditaskid for line in ask(task_list, TaskFilters(**filters)).tasks]
        collected: list[int] = []
        after: int | None = 0
        while after is not None and len(collected) <= len(all_tasks):
            page = ask(task_list, TaskFilters(limit=8, after=after, **filters))
            assert page.total == len(all_tasks)
            collected += [line.task.jeditaskid for line in page.tasks]
            after = page.next_after
        assert collected == all_tasks and len(set(collected)) == len(collected) > 8


def test_reasons_add_up_to_the_waiting_chunks_most_frequent_first(ask: Ask) -> None:
    answer = ask(reasons)
    for brokerage, number in answer.waiting.items():
        assert sum(line.chunks for line in answer.lines if line.brokerage == brokerage) == number
    chunks = [line.chunks for line in answer.lines]
    assert chunks == sorted(chunks, reverse=True) and sum(answer.waiting.values()) == 9
    assert all(line.chunks_before is None for line in answer.lines)  # no record from an hour before
    analysis = ask(reasons, ReasonFilters(brokerage="analysis_job"))
    assert {line.main_code for line in analysis.lines} == {"lowmemory", "throttled_running_jobs"}


def test_a_queue_lists_its_jobs_rejections_and_near_misses(ask: Ask) -> None:
    answer: QueueAnswer = ask(queue_answer, "bnl")
    (production,) = [line for line in answer.brokerages if line.brokerage == "production_job"]
    rejected = sum(rejection.decisions for rejection in production.rejected)
    assert production.considered == production.chosen + rejected and production.jobs_placed > 0
    misses = [miss for miss in production.near_misses if miss.field == "queue.maxrss" and miss.to == 32000.0]
    assert [(miss.now, miss.chunks, miss.jobs) for miss in misses] == [(24000.0, 2, 40)]
    assert near_miss_sentence(misses[0]) == (
        "2 chunks with 40 jobs would come if maxrss of BNL/MCORE_HIMEM were 32,000 MB instead of 24,000 MB."
    )
    assert {limit.field for limit in answer.limits} >= {"queue.maxrss", "queue.maxtime", "queue.maxwdir"}
    assert answer.links and answer.not_a_candidate == () and answer.jobs.running > 0
    assert any("considered in" in sentence for sentence in queue_sentences(answer))


def test_counts_of_cycles_agree_with_their_decisions(ask: Ask) -> None:
    def both(query: QueryContext) -> tuple[dict[tuple[str, str], DayCount], dict[tuple[str, str], DayCount]]:
        by_hand: defaultdict[tuple[str, str], DayCount] = defaultdict(DayCount)
        for state in chunk_states(query.connection, query.now):
            for queue in {unified_of(name) for name in state.chosen}:
                by_hand[state.brokerage, queue].chosen += 1
            for queue, code in {**state.counts.by_queue, **state.counts.not_candidates}.items():
                by_hand[state.brokerage, queue].rejected[code] += 1
            for name, jobs in state.assigned.items():
                by_hand[state.brokerage, unified_of(name)].placed += jobs
        from_cycles = {
            (brokerage, queue): count
            for brokerage, totals in totals_of_the_day(query).items()
            for queue, count in day_counts(totals).items()
        }
        return dict(by_hand), from_cycles

    by_hand, from_cycles = ask(both)
    assert from_cycles == by_hand and len(from_cycles) > 100
    bnl: QueueAnswer = ask(queue_answer, "BNL", evaluate=False)
    line = next(row for row in ask(queues).queues if row.queue == "BNL")
    assert (line.considered, line.chosen, line.placed) == tuple(
        sum(getattr(summary, name) for summary in bnl.brokerages) for name in ("considered", "chosen", "jobs_placed")
    )
    jobs = by_hand["production_job", "BNL"].placed + by_hand["analysis_job", "BNL"].placed
    assert line.placed == jobs > 0
    rejected = {rejection.code: rejection.decisions for rejection in bnl.brokerages[1].rejected}
    assert rejected == dict(by_hand["production_job", "BNL"].rejected)
    (nucleus_line,) = [row for row in ask(nuclei).nuclei if row.nucleus == "RAL-LCG2"]
    assert nucleus_line.collected == by_hand["production_task", "RAL-LCG2"].placed > 0


@pytest.mark.parametrize(
    ("answer_function", "max_reads"),
    [
        (task_list, 3),  # the throttles of throttled tasks
        (reasons, 0),
        (queues, 0),
        (nuclei, 0),
        (rules, 0),
        (rejection_map, 0),
        (alarms, 0),
    ],
)
def test_no_list_scans_decisions(
    ask: Ask, answer_function: Callable[..., Any], max_reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    execute = psycopg.Cursor.execute

    def count_reads(self: Any, query: Any, values: Any = None, **keywords: Any) -> Any:
        statement = query.decode() if isinstance(query, bytes) else str(query)
        if re.search(r"broker\.(stored_)?decisions\b", statement):
            assert "id = ANY(" in statement
            reads.append(len(values["ids"]))
        return execute(self, query, values, **keywords)

    monkeypatch.setattr(psycopg.Cursor, "execute", count_reads)
    ask(answer_function)
    assert sum(reads) <= max_reads


def test_states_can_be_limited_to_what_waits_at_a_brokerage(ask: Ask) -> None:
    all_states = ask(lambda query: chunk_states(query.connection, query.now))
    waiting = ask(lambda query: chunk_states(query.connection, query.now, waiting_at={"production_job"}))
    assert (
        waiting
        == [state for state in all_states if state.brokerage == "production_job" and state.outcome != "brokered"]
        != []
    )


def test_a_queue_that_is_no_candidate_says_why(ask: Ask) -> None:
    answer: QueueAnswer = ask(queue_answer, "BEIJING-LCG2", evaluate=False)
    codes = {line.brokerage: line.compared.value for line in answer.not_a_candidate if line.compared is not None}
    assert codes["production_job"] == "paused"
    assert next(iter(queue_sentences(answer))).startswith("Not a candidate of")


def test_all_queues_and_idle_queues(ask: Ask) -> None:
    all_queues, idle = ask(queues), ask(queues, QueueFilters(idle=True))
    assert len(all_queues.queues) == 76 and {line.queue for line in idle.queues} < {
        line.queue for line in all_queues.queues
    }
    assert all(line.placed == 0 for line in idle.queues)
    assert [line.queue for line in ask(queues, QueueFilters(status="paused")).queues] == ["BEIJING-LCG2"]
    with pytest.raises(NothingFound, match="did you mean BNL"):
        ask(queue_answer, "BNLX")


def test_a_nucleus_with_the_probability_of_each_task(ask: Ask) -> None:
    answer: NucleusAnswer = ask(nucleus_answer, "ral-lcg2")
    task_line = {line.jeditaskid: line for line in answer.tasks}[DRAWN]
    assert task_line.drawn and 0 < task_line.probability < 1
    assert answer.line.considered == answer.line.candidate + sum(line.decisions for line in answer.rejected)
    assert "RAL" in answer.queues and len(ask(nuclei).nuclei) > 10
    with pytest.raises(NothingFound):
        ask(nucleus_answer, "NOWHERE")


def test_full_links_are_over_their_cap(ask: Ask) -> None:
    full = ask(links, LinkFilters(full=True))
    assert full.total == len(full.links) > 0
    assert all(line.queued_files > line.cap_files for line in full.links)
    files = [line.queued_files for line in full.links]
    assert files == sorted(files, reverse=True)
    of_nucleus = ask(links, LinkFilters(nucleus="sara-matrix", limit=3))
    assert {line.nucleus for line in of_nucleus.links} == {"SARA-MATRIX"} and of_nucleus.total > 3


def test_pages_of_links_add_up_to_the_whole_list(ask: Ask) -> None:
    whole, collected, after = ask(links), [], None
    for _ in range(whole.total):
        page = ask(links, LinkFilters(limit=max(2, whole.total // 3), after=after))
        assert page.total == whole.total
        collected += page.links
        after = page.next_after
        if after is None:
            break
    assert tuple(collected) == whole.links and whole.next_after is None and whole.total > 6
    first = page_of_links(whole, None, 2)
    shortened = whole.model_copy(update={"links": whole.links[2:]})
    assert page_of_links(shortened, first.next_after, 2).links == whole.links[2:4], "what is gone takes nothing with it"


@pytest.mark.parametrize(
    "after",
    ["", "x", "[1]", '["1","a","b"]', "[1,2,3]", "[" * 5000, "null", '[NaN,"a","b"]', f'[1{"0" * 999},"a","b"]'],
)
def test_an_invalid_link_cursor_is_refused(ask: Ask, after: str) -> None:
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


def test_a_user_sees_throttles_caps_and_advice(ask: Ask) -> None:
    answer = ask(user_answer, BUSY_USER.upper())
    assert (answer.user, answer.running_jobs) == (BUSY_USER, 225.0)
    assert [(throttle.condition, throttle.figure, throttle.cap) for throttle in answer.throttles] == [
        ("running_jobs", 225.0, 150.0)
    ]
    assert answer.advice == {"throttled_running_jobs": "wait"}
    assert {throttle.condition: throttle.cap for throttle in answer.caps}["queued_jobs"] == 300.0
    with pytest.raises(NothingFound, match="did you mean etanaka"):
        ask(user_answer, "etanak")


def test_rules_count_their_rejections(ask: Ask) -> None:
    answer = ask(rules, "production_job")
    by_rule = {line.rule: line for line in answer.rules}
    assert by_rule["memory_max"].decides_24h == 1 and by_rule["status"].rejections_24h > 0
    assert [line.position for line in answer.rules] == list(range(1, len(answer.rules) + 1))


def test_agents_with_their_cycles(ask: Ask) -> None:
    answer = ask(service_answer)
    line = {agent.agent: agent for agent in answer.agents}["production_job"]
    assert (line.last_outcome, line.cycles_24h, line.failed_24h, line.pause) == ("done", 1, 0, None)
    assert line.mean_s is not None and line.age_s is not None and line.age_s >= 0


def test_an_unknown_job_and_an_unknown_pool(ask: Ask) -> None:
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


def test_a_throttle_says_when_it_was_decided_and_when_it_is_retried(ask: Ask) -> None:
    answer = ask(user_answer, BUSY_USER)
    (line,) = [task_line for task_line in answer.tasks if task_line.throttle is not None]
    (sentence,) = throttle_sentences(answer)
    assert line.decided_at is not None and line.task.next_try_at is not None
    assert f"; decided {day_and_moment(line.decided_at)}, next try {day_and_moment(line.task.next_try_at)}." in sentence
    task = line.task.model_copy(update={"redecide": "each_cycle", "next_try_at": None})
    each_cycle = answer.model_copy(update={"tasks": (line.model_copy(update={"task": task}),)})
    assert [text.endswith(" UTC, decided again each cycle.") for text in throttle_sentences(each_cycle)] == [True]
