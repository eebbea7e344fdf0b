"""Queues, nuclei, links, shares, and the counts of cycles, on the example grid."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from broker.decisions.answers.reason_codes import rules
from broker.domain.rejection_counts import unified_of
from broker.grid.answers.grid import DayCount, day_counts, totals_of_the_day
from broker.grid.answers.links import BadLinkCursor, links, page_of_links
from broker.grid.answers.models import LinkFilters, NucleusAnswer, QueueAnswer, QueueFilters
from broker.grid.answers.queue import near_miss_sentence, queue_answer, queue_sentences
from broker.grid.answers.queues import nuclei, nucleus_answer, queues
from broker.grid.answers.shares import shares
from broker.history.answers.reasons import reasons
from broker.history.answers.stored_states import chunk_states
from broker.history.answers.tasks import task_list
from broker.service.answers.alarms import alarms
from broker.service.answers.overview import rejection_map
from broker.store.query_context import NothingFound, QueryContext
from tests.brokered_demo import DRAWN

Ask = Callable[..., Any]


def test_a_queue_lists_its_jobs_rejections_and_near_misses(query_demo: Ask) -> None:
    answer: QueueAnswer = query_demo(queue_answer, "bnl")
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


def test_counts_of_cycles_agree_with_their_decisions(query_demo: Ask) -> None:
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

    by_hand, from_cycles = query_demo(both)
    assert from_cycles == by_hand and len(from_cycles) > 100
    bnl: QueueAnswer = query_demo(queue_answer, "BNL", evaluate=False)
    line = next(row for row in query_demo(queues).queues if row.queue == "BNL")
    assert (line.considered, line.chosen, line.placed) == tuple(
        sum(getattr(summary, name) for summary in bnl.brokerages) for name in ("considered", "chosen", "jobs_placed")
    )
    jobs = by_hand["production_job", "BNL"].placed + by_hand["analysis_job", "BNL"].placed
    assert line.placed == jobs > 0
    rejected = {rejection.code: rejection.decisions for rejection in bnl.brokerages[1].rejected}
    assert rejected == dict(by_hand["production_job", "BNL"].rejected)
    (nucleus_line,) = [row for row in query_demo(nuclei).nuclei if row.nucleus == "RAL-LCG2"]
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
    query_demo: Ask, answer_function: Callable[..., Any], max_reads: int, monkeypatch: pytest.MonkeyPatch
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
    query_demo(answer_function)
    assert sum(reads) <= max_reads


def test_a_queue_that_is_no_candidate_says_why(query_demo: Ask) -> None:
    answer: QueueAnswer = query_demo(queue_answer, "BEIJING-LCG2", evaluate=False)
    codes = {line.brokerage: line.compared.value for line in answer.not_a_candidate if line.compared is not None}
    assert codes["production_job"] == "paused"
    assert next(iter(queue_sentences(answer))).startswith("Not a candidate of")


def test_all_queues_and_idle_queues(query_demo: Ask) -> None:
    all_queues, idle = query_demo(queues), query_demo(queues, QueueFilters(idle=True))
    assert len(all_queues.queues) == 76 and {line.queue for line in idle.queues} < {
        line.queue for line in all_queues.queues
    }
    assert all(line.placed == 0 for line in idle.queues)
    assert [line.queue for line in query_demo(queues, QueueFilters(status="paused")).queues] == ["BEIJING-LCG2"]
    with pytest.raises(NothingFound, match="did you mean BNL"):
        query_demo(queue_answer, "BNLX")


def test_a_nucleus_with_the_probability_of_each_task(query_demo: Ask) -> None:
    answer: NucleusAnswer = query_demo(nucleus_answer, "ral-lcg2")
    task_line = {line.jeditaskid: line for line in answer.tasks}[DRAWN]
    assert task_line.drawn and 0 < task_line.probability < 1
    assert answer.line.considered == answer.line.candidate + sum(line.decisions for line in answer.rejected)
    assert "RAL" in answer.queues and len(query_demo(nuclei).nuclei) > 10
    with pytest.raises(NothingFound):
        query_demo(nucleus_answer, "NOWHERE")


def test_full_links_are_over_their_cap(query_demo: Ask) -> None:
    full = query_demo(links, LinkFilters(full=True))
    assert full.total == len(full.links) > 0
    assert all(line.queued_files > line.cap_files for line in full.links)
    files = [line.queued_files for line in full.links]
    assert files == sorted(files, reverse=True)
    of_nucleus = query_demo(links, LinkFilters(nucleus="sara-matrix", limit=3))
    assert {line.nucleus for line in of_nucleus.links} == {"SARA-MATRIX"} and of_nucleus.total > 3


def test_pages_of_links_add_up_to_the_whole_list(query_demo: Ask) -> None:
    whole, collected, after = query_demo(links), [], None
    for _ in range(whole.total):
        page = query_demo(links, LinkFilters(limit=max(2, whole.total // 3), after=after))
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
def test_an_invalid_link_cursor_is_refused(query_demo: Ask, after: str) -> None:
    with pytest.raises(BadLinkCursor, match="no place in the list of links"):
        query_demo(links, LinkFilters(after=after))


def test_shares_add_up_to_their_parents(query_demo: Ask) -> None:
    lines = query_demo(shares).shares
    tops = [line for line in lines if line.parent is None]
    assert sum(line.target_percent for line in tops) == pytest.approx(100)
    for top in tops:
        children = [line for line in lines if line.parent == top.gshare]
        assert sum(line.target_percent for line in children) == pytest.approx(top.target_percent)
        assert sum(line.running_jobs for line in children) <= top.running_jobs
