"""Numbers of queues and pseudo-queues by reason add up on any grid."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.rejection_counts import Counts, rejection_counts
from broker.engine.job.decision import decision_of
from tests.engine.toy_cycle import cycle, only, work
from tests.engine.toy_rules import AtMost, Toy, mask


def test_a_queue_counts_at_the_reason_of_its_last_pseudo_queue() -> None:
    rejected = {"A/SCORE": "status", "A/MCORE": "lowmemory", "A": "lowmemory", "B": "status"}
    counts = rejection_counts(rejected, [("status", 4, 2), ("lowmemory", 2, 1)], ["C/SCORE"])
    assert [(rejection.code, rejection.rejected, rejection.remaining) for rejection in counts.rejected] == [
        ("status", Counts(1, 2), Counts(2, 2)),
        ("lowmemory", Counts(1, 1), Counts(1, 1)),
    ]
    assert (counts.start, counts.chosen) == (Counts(3, 4), Counts(1, 1))
    assert counts.by_queue == {"A": "lowmemory", "B": "status"}


def test_a_queue_with_a_chosen_pseudo_queue_is_not_rejected() -> None:
    counts = rejection_counts({"A/SCORE": "status"}, [("status", 2, 1)], ["A/MCORE"])
    assert counts.rejected[0].rejected == Counts(0, 1)
    assert (counts.start, counts.chosen, counts.by_queue) == (Counts(1, 2), Counts(1, 1), {})


@pytest.mark.parametrize("code", ["unknown_queue", "status"])
def test_names_that_are_no_queue_are_not_counted(code: str) -> None:
    counts = rejection_counts({"A": "status", "GONE": code}, [("status", 1, 0)], [])
    assert (counts.start, len(counts.not_candidates)) == (Counts(1, 1), 1)


def test_rules_with_one_code_are_one_reason() -> None:
    funnel = [("disk", 3, 2), ("network", 2, 1), ("disk", 1, 0)]
    counts = rejection_counts({"A": "disk", "B": "network", "C": "disk"}, funnel, [])
    assert [(rejection.code, rejection.rejected.queues) for rejection in counts.rejected] == [
        ("disk", 2),
        ("network", 1),
    ]


def test_nothing_at_all() -> None:
    counts = rejection_counts({}, [], [])
    assert (counts.start, counts.rejected, counts.chosen) == (Counts(0, 0), (), Counts(0, 0))


masks = st.lists(st.booleans(), min_size=5, max_size=5)
rules = st.lists(st.tuples(masks, masks, st.sampled_from(("persistent", "temporary"))), min_size=0, max_size=5)


@settings(max_examples=60)
@given(rules, st.sampled_from((-1, 0, 100)), st.sampled_from((None, "N_PLAIN,GONE", "GONE")), st.booleans())
def test_rejected_and_chosen_add_up_to_the_start_on_random_grids(
    rule_masks: list[tuple[list[bool], list[bool], str]], limit: int, site: str | None, with_cut: bool
) -> None:
    filters = [
        Toy(f"r{place}", mask(keep), kind=kind, unknown=mask(unknown))
        for place, (keep, unknown, kind) in enumerate(rule_masks)
    ]
    result = cycle(work(currentpriority=500.0, site=site), filters, cuts=[AtMost(limit)] if with_cut else [])
    decision = decision_of(result, only(result))
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    counts = rejection_counts(decision.rejected, funnel, [entry.name for entry in decision.candidates])
    queues = sum(entry.rejected.queues for entry in counts.rejected)
    pseudo_queues = sum(entry.rejected.pseudo_queues for entry in counts.rejected)
    assert counts.start == Counts(queues + counts.chosen.queues, pseudo_queues + counts.chosen.pseudo_queues)
    assert len(counts.by_queue) == queues
    remaining = counts.rejected[-1].remaining if counts.rejected else counts.start
    assert remaining == counts.chosen
    # the engine's numbers of pseudo-queues agree
    start = funnel[0][1] if funnel else len(decision.candidates)
    assert counts.start.pseudo_queues == start
    by_code: dict[str, int] = {}
    for code, before, after in funnel:
        by_code[code] = by_code.get(code, 0) + before - after
    assert {entry.code: entry.rejected.pseudo_queues for entry in counts.rejected} == by_code
