"""Numbers of queues and pseudo-queues by reason: they add up, whatever the grid."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.rejection_counts import Counts, rejection_counts
from broker.engine.job.decision import decision_of
from tests.engine.toy_cycle import cycle, only, work
from tests.engine.toy_rules import AtMost, Toy, mask


def test_a_queue_counts_where_its_last_pseudo_queue_went() -> None:
    rejected = {"A/SCORE": "status", "A/MCORE": "lowmemory", "A": "lowmemory", "B": "status"}
    counts = rejection_counts(rejected, [("status", 4, 2), ("lowmemory", 2, 1)], ["C/SCORE"])
    assert [(one.code, one.rejected, one.remaining) for one in counts.rejected] == [
        ("status", Counts(1, 2), Counts(2, 2)),
        ("lowmemory", Counts(1, 1), Counts(1, 1)),
    ]
    assert (counts.start, counts.chosen) == (Counts(3, 4), Counts(1, 1))
    assert counts.by_queue == {"A": "lowmemory", "B": "status"}


def test_a_queue_of_which_something_is_chosen_is_not_rejected() -> None:
    counts = rejection_counts({"A/SCORE": "status"}, [("status", 2, 1)], ["A/MCORE"])
    assert counts.rejected[0].rejected == Counts(0, 1)
    assert (counts.start, counts.chosen, counts.by_queue) == (Counts(1, 2), Counts(1, 1), {})


@pytest.mark.parametrize("code", ["unknown_queue", "status"])
def test_names_that_stand_for_no_queue_count_nowhere(code: str) -> None:
    counts = rejection_counts({"A": "status", "GONE": code}, [("status", 1, 0)], [])
    assert (counts.start, len(counts.not_candidates)) == (Counts(1, 1), 1)


def test_two_rules_of_one_code_are_one_reason() -> None:
    funnel = [("disk", 3, 2), ("network", 2, 1), ("disk", 1, 0)]
    counts = rejection_counts({"A": "disk", "B": "network", "C": "disk"}, funnel, [])
    assert [(one.code, one.rejected.queues) for one in counts.rejected] == [("disk", 2), ("network", 1)]


def test_nothing_at_all() -> None:
    counts = rejection_counts({}, [], [])
    assert (counts.start, counts.rejected, counts.chosen) == (Counts(0, 0), (), Counts(0, 0))


masks = st.lists(st.booleans(), min_size=5, max_size=5)
rules = st.lists(st.tuples(masks, masks, st.sampled_from(("persistent", "temporary"))), min_size=0, max_size=5)


@settings(max_examples=60)
@given(rules, st.sampled_from((-1, 0, 100)), st.sampled_from((None, "N_PLAIN,GONE", "GONE")), st.booleans())
def test_over_random_grids_the_reasons_and_the_chosen_are_the_start(
    found: list[tuple[list[bool], list[bool], str]], most: int, site: str | None, with_cut: bool
) -> None:
    filters = [
        Toy(f"r{place}", mask(keep), kind=kind, unknown=mask(unknown))
        for place, (keep, unknown, kind) in enumerate(found)
    ]
    judged = cycle(work(currentpriority=500.0, site=site), filters, cuts=[AtMost(most)] if with_cut else [])
    decision = decision_of(judged, only(judged))
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    counts = rejection_counts(decision.rejected, funnel, [one.name for one in decision.candidates])
    queues = sum(one.rejected.queues for one in counts.rejected)
    pseudo_queues = sum(one.rejected.pseudo_queues for one in counts.rejected)
    assert counts.start == Counts(queues + counts.chosen.queues, pseudo_queues + counts.chosen.pseudo_queues)
    assert len(counts.by_queue) == queues
    remaining = counts.rejected[-1].remaining if counts.rejected else counts.start
    assert remaining == counts.chosen
    # the engine's own numbers of pseudo-queues say the same
    start = funnel[0][1] if funnel else len(decision.candidates)
    assert counts.start.pseudo_queues == start
    by_code: dict[str, int] = {}
    for code, before, after in funnel:
        by_code[code] = by_code.get(code, 0) + before - after
    assert {one.code: one.rejected.pseudo_queues for one in counts.rejected} == by_code
