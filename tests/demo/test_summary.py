from __future__ import annotations

from typing import Any

from broker.demo.summary import FunnelLine, NucleusGiven, QueueUse, WaitingChunk, nuclei_given, summarise


def decision(**fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "jeditaskid": 1,
        "outcome": "brokered",
        "reason": "",
        "candidates": [{"name": "CERN/SCORE", "weight": 2.0}, {"name": "CERN/MCORE", "weight": 1.0}],
        "funnel": [["status", 30, 27], ["cpucore", 27, 20], ["cap", 20, 10]],
        "assigned": {"CERN/SCORE": 30, "CERN/MCORE": 10},
    }
    return base | fields


def pending(**fields: Any) -> dict[str, Any]:
    waiting = {"outcome": "pending", "reason": "no candidates", "candidates": [], "assigned": {}}
    return decision(**(waiting | fields))


def test_jobs_of_pseudo_queues_add_up_at_their_queue() -> None:
    other = decision(jeditaskid=2, candidates=[{"name": "BNL", "weight": 0.5}], assigned={"BNL": 45})
    summary = summarise([decision(), other])
    assert summary.jobs == 85
    assert summary.queues == (QueueUse("BNL", 45, 1, 0.5), QueueUse("CERN", 40, 1, 1.75))


def test_equal_numbers_come_by_name_and_two_chunks_of_a_task_are_one_task() -> None:
    bnl = decision(candidates=[{"name": "BNL", "weight": 0.5}], assigned={"BNL": 5})
    summary = summarise([decision(assigned={"CERN/SCORE": 5}), bnl, decision(assigned={"CERN/SCORE": 0})])
    assert [(use.queue, use.tasks) for use in summary.queues] == [("BNL", 1), ("CERN", 1)]
    assert (summary.tasks, summary.chunks, summary.brokered) == (1, 3, 3)


def test_the_funnel_adds_up_and_leaves_out_rules_that_removed_nothing() -> None:
    other = decision(funnel=[["status", 30, 29], ["network", 29, 29], ["cpucore", 29, 9]])
    summary = summarise([decision(), other])
    assert summary.candidates == 60
    assert summary.funnel == (FunnelLine("status", 4, 56), FunnelLine("cpucore", 27, 29), FunnelLine("cap", 10, 19))


def test_a_rule_that_not_every_chunk_met_keeps_its_place() -> None:
    first = decision(funnel=[["a", 5, 4], ["c", 4, 3]])
    second = decision(funnel=[["a", 5, 4], ["b", 4, 3], ["c", 3, 2]])
    assert [line.code for line in summarise([first, second]).funnel] == ["a", "b", "c"]


def test_two_rules_of_one_code_are_two_lines() -> None:
    twice = decision(funnel=[["disk", 5, 4], ["network", 4, 3], ["disk", 3, 1]])
    assert summarise([twice, twice]).funnel == (
        FunnelLine("disk", 2, 8),
        FunnelLine("network", 2, 6),
        FunnelLine("disk", 4, 2),
    )


def test_a_waiting_chunk_shows_what_removed_most() -> None:
    funnel = [["status", 9, 8], ["lowmemory", 8, 1], ["cap", 1, 1], ["nopilot", 1, 0]]
    summary = summarise([pending(jeditaskid=7, funnel=funnel)])
    assert summary.waiting == (WaitingChunk(7, "no candidates", (("lowmemory", 7), ("status", 1), ("nopilot", 1))),)
    assert (summary.brokered, summary.jobs) == (0, 0)


def test_a_chunk_without_a_funnel_counts_no_candidates() -> None:
    summary = summarise([pending(funnel=[])])
    assert (summary.candidates, summary.funnel) == (0, ())
    assert summary.waiting[0].codes == ()


def test_a_chunk_whose_queues_do_not_exist_says_so() -> None:
    summary = summarise([pending(funnel=[], rejected={"GONE": "unknown_queue"})])
    assert summary.waiting[0].codes == (("unknown_queue", 1),)


def test_brokered_without_room_is_named() -> None:
    assert summarise([decision(jeditaskid=3, assigned={}), decision()]).unplaced == (3,)


def test_no_decisions_at_all() -> None:
    summary = summarise([])
    assert (summary.tasks, summary.queues, summary.funnel, summary.waiting) == (0, (), (), ())


def test_tasks_that_waited_for_a_nucleus_are_shown_with_their_jobs() -> None:
    got = {
        "jeditaskid": 1,
        "outcome": "brokered",
        "reason": "",
        "candidates": [{"name": "ALPHA", "weight": 2.5}, {"name": "BETA", "weight": 3.0}],
    }
    none = {"jeditaskid": 2, "outcome": "pending", "reason": "no_candidates", "candidates": []}
    of_jobs = [
        {"jeditaskid": 1, "assigned": {"CERN/SCORE": 3, "CERN/MCORE": 2, "pic": 1}},
        {"jeditaskid": 1, "assigned": {"pic": 4}},
        {"jeditaskid": 9, "assigned": {"pic": 4}},
    ]
    assert nuclei_given([got, none], of_jobs) == (
        NucleusGiven(1, "ALPHA", "", 2, 2.5, 10, 2),
        NucleusGiven(2, None, "no_candidates", 0, None, 0, 0),
    )
