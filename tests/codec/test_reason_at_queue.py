"""The reason at one queue, computed without the names of all others, is the same as with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings, strategies as st

from broker.codec.packed_reasons import FEASIBLE, FunnelSteps, Reasons, RejectedNames
from broker.codec.reason_at_queue import codes_at, counts_of
from broker.domain.chosen_candidates import ChosenCandidates, Legend
from broker.domain.decisions import Candidate, Decision
from tests.codec.test_packed_decisions import any_reasons, legend


def decision_of(reasons: Reasons, chosen: list[int], packed: bool = True) -> Decision:
    size, names = len(chosen), reasons.legend.names
    zeros = np.zeros(size)
    candidates = ChosenCandidates(
        np.array(chosen, dtype=np.int64), zeros, np.zeros((0, size)), zeros > 0, reasons.legend
    )
    return Decision(
        jeditaskid=1,
        datasetid=2,
        ramcount=None,
        brokerage="production_job",
        outcome="pending",
        reason="no_candidates",
        candidates=candidates if packed else tuple(Candidate(names[index], 1.0, {}, False) for index in chosen),
        rejected=RejectedNames(reasons),
        funnel=FunnelSteps(reasons),
        notes=(),
    )


@st.composite
def random_decision(draw: st.DrawFn) -> Decision:
    reasons = draw(any_reasons())
    if draw(st.booleans()):
        # two rules of a chain may give the same code
        codes = tuple(f"c{number // 2}" for number in range(len(reasons.legend.codes)))
        reasons = replace(reasons, legend=replace(reasons.legend, codes=codes))
    if draw(st.booleans()):
        nuclei = replace(reasons.legend, names=tuple("ABCD"), groups=())
        position = np.resize(reasons.position, 4)
        reasons = replace(reasons, legend=nuclei, position=position)
    feasible = np.flatnonzero(reasons.position == FEASIBLE).tolist()
    chosen = draw(st.lists(st.sampled_from(feasible), unique=True)) if feasible and not reasons.blocked else []
    return decision_of(reasons, chosen, draw(st.booleans()))


@settings(max_examples=30)
@given(st.lists(random_decision(), min_size=1, max_size=3))
def test_the_reason_of_a_queue_equals_the_one_in_the_counts_of_all(decisions: list[Decision]) -> None:
    for queue in "ABCDZ":
        assert codes_at(decisions, queue) == [counts_of(decision).by_queue.get(queue) for decision in decisions]


def test_reasons_of_candidates_that_are_no_pseudo_queues() -> None:
    nuclei = Legend(names=("CERN", "BNL"), codes=("full",), order=(0,), departure=(0,))
    decisions = [
        decision_of(Reasons(nuclei, np.array([0, FEASIBLE])), [1]),
        decision_of(Reasons(nuclei, np.array([0, 0])), []),
    ]
    assert codes_at(decisions, "CERN") == ["full", "full"]
    assert codes_at(decisions, "BNL") == [None, "full"]


def test_a_feasible_queue_that_is_not_chosen_has_the_last_reason_of_its_pseudo_queues() -> None:
    reasons = Reasons(legend("AAB"), np.array([1, FEASIBLE, 0]))
    assert codes_at([decision_of(reasons, []), decision_of(reasons, [1])], "A") == ["c1", None]
