"""The reason of one queue, without the names of all others: the same as with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings, strategies as st

from broker.codec.packed_reasons import FEASIBLE, FunnelSteps, Reasons, RejectedNames
from broker.codec.reason_at_queue import codes_at, counts_of
from broker.domain.chosen_candidates import ChosenCandidates, Legend
from broker.domain.decisions import Candidate, Decision
from tests.domain.test_packed_decisions import judged, legend


def made(reasons: Reasons, chosen: list[int], packed: bool = True) -> Decision:
    size, names = len(chosen), reasons.legend.names
    zeros = np.zeros(size)
    own = ChosenCandidates(np.array(chosen, dtype=np.int64), zeros, np.zeros((0, size)), zeros > 0, reasons.legend)
    return Decision(
        jeditaskid=1,
        datasetid=2,
        ramcount=None,
        brokerage="production_job",
        outcome="pending",
        reason="no_candidates",
        candidates=own if packed else tuple(Candidate(names[at], 1.0, {}, False) for at in chosen),
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=(),
    )


@st.composite
def decided(draw: st.DrawFn) -> Decision:
    reasons = draw(judged())
    if draw(st.booleans()):
        # two rules of a chain may give the same code
        codes = tuple(f"c{number // 2}" for number in range(len(reasons.legend.codes)))
        reasons = replace(reasons, legend=replace(reasons.legend, codes=codes))
    if draw(st.booleans()):
        nuclei = replace(reasons.legend, names=tuple("ABCD"), groups=())
        position = np.resize(reasons.position, 4)
        reasons = replace(reasons, legend=nuclei, position=position)
    left = np.flatnonzero(reasons.position == FEASIBLE).tolist()
    chosen = draw(st.lists(st.sampled_from(left), unique=True)) if left and not reasons.blocked else []
    return made(reasons, chosen, draw(st.booleans()))


@settings(max_examples=30)
@given(st.lists(decided(), min_size=1, max_size=3))
def test_the_reason_of_a_queue_is_that_of_the_counts_of_all(decisions: list[Decision]) -> None:
    for queue in "ABCDZ":
        assert codes_at(decisions, queue) == [counts_of(one).by_queue.get(queue) for one in decisions]


def test_candidates_that_are_no_pseudo_queues_are_counted_with_all_others() -> None:
    nuclei = Legend(names=("CERN", "BNL"), codes=("full",), order=(0,), departure=(0,))
    some = [made(Reasons(nuclei, np.array([0, FEASIBLE])), [1]), made(Reasons(nuclei, np.array([0, 0])), [])]
    assert codes_at(some, "CERN") == ["full", "full"]
    assert codes_at(some, "BNL") == [None, "full"]


def test_a_queue_that_is_left_but_not_chosen_has_the_last_reason_of_its_other_pseudo_queues() -> None:
    reasons = Reasons(legend("AAB"), np.array([1, FEASIBLE, 0]))
    assert codes_at([made(reasons, []), made(reasons, [1])], "A") == ["c1", None]
