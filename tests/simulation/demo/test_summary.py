from __future__ import annotations

from typing import Any

from broker.simulation.model.demo.summary import (
    FunnelLine,
    NucleusGiven,
    QueueUse,
    WaitingChunk,
    nuclei_given,
    summarise,
)


def rejections(*codes: tuple[str, int], candidates: int = 2) -> dict[str, Any]:
    """The funnel and rejections of codes in order, each rejecting that many queues of one pseudo-queue."""
    left, funnel, rejected = sum(number for _, number in codes) + candidates, [], {}
    for place, (code, number) in enumerate(codes):
        funnel.append([code, left, left - number])
        left -= number
        for queue in range(number):
            rejected |= {f"{code}{place}_{queue}/SCORE": code, f"{code}{place}_{queue}": code}
    return {"funnel": funnel, "rejected": rejected}


def decision(**fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "jeditaskid": 1,
        "outcome": "brokered",
        "reason": "",
        "candidates": [{"name": "CERN/SCORE", "weight": 2.0}, {"name": "CERN/MCORE", "weight": 1.0}],
        **rejections(("status", 3), ("cpucore", 7), ("cap", 10)),
        "assigned": {"CERN/SCORE": 30, "CERN/MCORE": 10},
    }
    return base | fields


def pending(**fields: Any) -> dict[str, Any]:
    waiting = {"outcome": "pending", "reason": "no candidates", "candidates": [], "assigned": {}}
    return decision(**(waiting | fields))


def test_jobs_of_pseudo_queues_add_up_at_their_queue() -> None:
    second = decision(jeditaskid=2, candidates=[{"name": "BNL", "weight": 0.5}], assigned={"BNL": 45})
    summary = summarise([decision(), second])
    assert summary.jobs == 85
    assert summary.queues == (QueueUse("BNL", 45, 1, 0.5), QueueUse("CERN", 40, 1, 1.75))


def test_equal_numbers_are_ordered_by_name_and_two_chunks_of_a_task_are_one_task() -> None:
    bnl = decision(candidates=[{"name": "BNL", "weight": 0.5}], assigned={"BNL": 5})
    summary = summarise([decision(assigned={"CERN/SCORE": 5}), bnl, decision(assigned={"CERN/SCORE": 0})])
    assert [(use.queue, use.tasks) for use in summary.queues] == [("BNL", 1), ("CERN", 1)]
    assert (summary.tasks, summary.chunks, summary.brokered) == (1, 3, 3)


def test_the_funnel_adds_up_and_leaves_out_rules_that_removed_nothing() -> None:
    second = decision(**rejections(("status", 1), ("network", 0), ("cpucore", 20)))
    summary = summarise([decision(), second])
    assert (summary.candidate_queues, summary.candidates) == (43, 45)  # two pseudo-queues of CERN are left in each
    assert summary.funnel == (
        FunnelLine("status", 4, 39, 4, 41),
        FunnelLine("cpucore", 27, 12, 27, 14),
        FunnelLine("cap", 10, 2, 10, 4),
    )


def test_a_queue_counts_at_the_rule_that_rejected_its_last_pseudo_queue() -> None:
    rejected = {"A/SCORE": "status", "A/MCORE": "cpucore", "A": "cpucore", "CERN/LOMEM": "status"}
    summary = summarise([decision(funnel=[["status", 5, 3], ["cpucore", 3, 2]], rejected=rejected)])
    assert (summary.candidate_queues, summary.candidates) == (2, 5)
    assert summary.funnel == (FunnelLine("status", 0, 2, 2, 3), FunnelLine("cpucore", 1, 1, 1, 2))


def test_a_rule_that_only_some_chunks_reached_keeps_its_place() -> None:
    first = decision(**rejections(("a", 1), ("c", 1)))
    second = decision(**rejections(("a", 1), ("b", 1), ("c", 1)))
    assert [line.code for line in summarise([first, second]).funnel] == ["a", "b", "c"]


def test_two_rules_with_the_same_code_are_one_line() -> None:
    twice = decision(**rejections(("disk", 1), ("network", 1), ("disk", 2)))
    assert summarise([twice, twice]).funnel == (
        FunnelLine("disk", 6, 4, 6, 6),
        FunnelLine("network", 2, 2, 2, 4),
    )


def test_a_waiting_chunk_shows_its_largest_rejections_first() -> None:
    reasons = rejections(("status", 1), ("lowmemory", 7), ("nopilot", 1), candidates=0)
    summary = summarise([pending(jeditaskid=7, **reasons)])
    assert summary.waiting == (WaitingChunk(7, "no candidates", (("lowmemory", 7), ("status", 1), ("nopilot", 1))),)
    assert (summary.brokered, summary.jobs) == (0, 0)


def test_a_chunk_without_a_funnel_counts_its_candidates() -> None:
    summary = summarise([pending(funnel=[], rejected={})])
    assert (summary.candidates, summary.funnel) == (0, ())
    assert summarise([decision(funnel=[], rejected={})]).candidates == 2
    assert summary.waiting[0].codes == ()


def test_a_chunk_whose_queues_do_not_exist_has_the_code_unknown_queue() -> None:
    summary = summarise([pending(funnel=[], rejected={"GONE": "unknown_queue"})])
    assert summary.waiting[0].codes == (("unknown_queue", 1),)


def test_brokered_chunks_without_room_are_listed() -> None:
    assert summarise([decision(jeditaskid=3, assigned={}), decision()]).unplaced == (3,)


def test_no_decisions_at_all() -> None:
    summary = summarise([])
    assert (summary.tasks, summary.queues, summary.funnel, summary.waiting) == (0, (), (), ())


def test_tasks_that_waited_for_a_nucleus_are_shown_with_their_jobs() -> None:
    brokered = {
        "jeditaskid": 1,
        "outcome": "brokered",
        "reason": "",
        "candidates": [{"name": "ALPHA", "weight": 2.5}, {"name": "BETA", "weight": 3.0}],
    }
    waiting = {"jeditaskid": 2, "outcome": "pending", "reason": "no_candidates", "candidates": []}
    job_decisions = [
        {"jeditaskid": 1, "assigned": {"CERN/SCORE": 3, "CERN/MCORE": 2, "pic": 1}},
        {"jeditaskid": 1, "assigned": {"pic": 4}},
        {"jeditaskid": 9, "assigned": {"pic": 4}},
    ]
    assert nuclei_given([brokered, waiting], job_decisions) == (
        NucleusGiven(1, "ALPHA", "", 2, 2.5, 10, 2),
        NucleusGiven(2, None, "no_candidates", 0, None, 0, 0),
    )
