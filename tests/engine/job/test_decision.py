"""Results as decisions: funnel, candidates and reasons."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.decisions import FunnelStep
from broker.engine.job.decision import decision_of
from broker.snapshot.raw import SourceState
from tests.engine.toy_cycle import cycle, only, work
from tests.engine.toy_rules import AtMost, Factor, FewerQueued, Toy, mask

# columns: N_PLAIN, N_UCORE/MCORE, N_UCORE/SCORE, S_PLAIN, S_TEST


def rejections_of(*filters: Any, **more: Any) -> dict[str, str]:
    toy_cycle = cycle(work(currentpriority=500.0), filters, **more)
    return decision_of(toy_cycle, only(toy_cycle)).rejected


def test_a_queue_that_is_not_unified_is_named_once() -> None:
    assert rejections_of(Toy("a", mask([0, 1, 1, 1, 1]))) == {"N_PLAIN": "code_a"}


def test_a_unified_queue_is_rejected_when_all_its_pseudo_queues_are() -> None:
    assert rejections_of(Toy("a", mask([1, 0, 1, 1, 1]))) == {"N_UCORE/MCORE": "code_a"}
    both = rejections_of(Toy("a", mask([1, 0, 0, 1, 1])))
    assert both == {"N_UCORE/MCORE": "code_a", "N_UCORE/SCORE": "code_a", "N_UCORE": "code_a"}


@pytest.mark.parametrize(("first", "code"), [("MCORE", "code_b"), ("SCORE", "code_b")])
def test_a_unified_queue_shows_the_code_of_its_last_rejected_pseudo_queue(first: str, code: str) -> None:
    early, late = (mask([1, 0, 1, 1, 1]), mask([1, 1, 0, 1, 1]))
    if first == "SCORE":
        early, late = late, early
    assert rejections_of(Toy("a", early), Toy("b", late))["N_UCORE"] == code


def test_temporary_rejections_come_after_persistent_ones() -> None:
    codes = rejections_of(Toy("now", mask([1, 0, 1, 1, 1]), kind="temporary"), Toy("good", mask([1, 1, 0, 1, 1])))
    assert codes["N_UCORE"] == "code_now"


def test_cuts_after_weighing_come_last() -> None:
    filters = [Toy("now", mask([1, 1, 0, 1, 1]), kind="temporary")]
    codes = rejections_of(*filters, cuts=[AtMost(-1)])
    assert codes["N_UCORE"] == codes["S_PLAIN"] == "at_most"


def test_unknown_values_have_their_own_codes() -> None:
    rule = Toy("a", mask([1]), unknown=mask([1, 0, 0, 0, 0]))
    assert rejections_of(rule) == {"N_PLAIN": "unknown_a"}
    states = (SourceState("links", "missing", 0, None, None),)
    assert set(rejections_of(Toy("a", mask([1]), sources=("links",)), states=states).values()) == {"unknown_a"}


def test_test_queues_and_unnamed_queues_are_not_in_the_funnel() -> None:
    toy_cycle = cycle(work(site="N_PLAIN,GONE,S_TEST"), [Toy("a", mask([1, 1, 1, 1, 0]))])
    decision = decision_of(toy_cycle, only(toy_cycle))
    assert decision.rejected == {"S_TEST": "code_a", "GONE": "unknown_queue"}
    assert decision.funnel[0] == FunnelStep("code_a", 2, 1)
    assert [candidate.name for candidate in decision.candidates] == ["N_PLAIN"]


def test_the_funnel_lists_the_rejecting_rules_in_order() -> None:
    filters = [
        Toy("a", mask([1, 0, 1, 1, 1])),
        Toy("b", mask([1]), unknown=mask([0, 0, 1, 0, 0])),
        Toy("c", mask([1, 1, 1, 1, 1])),
    ]
    toy_cycle = cycle(work(currentpriority=500.0), filters, cuts=[AtMost(0)])
    assert [(step.code, step.before, step.after) for step in decision_of(toy_cycle, only(toy_cycle)).funnel] == [
        ("code_a", 4, 3),
        ("unknown_b", 3, 2),
    ]


def test_a_blocked_chunk_ends_its_funnel_with_the_reason() -> None:
    toy_cycle = cycle(work(nucleus="GONE"), [Toy("a", mask([1, 0, 1, 1, 1]))])
    decision = decision_of(toy_cycle, only(toy_cycle))
    assert (decision.outcome, decision.reason) == ("pending", "unknown_nucleus")
    assert decision.funnel[-1] == FunnelStep("unknown_nucleus", 3, 0)


def test_a_candidate_with_its_factors() -> None:
    weights, moving = [Factor("two", 2.0), Factor("column", [[1.0, 2.0, 3.0, 4.0, 5.0]])], [FewerQueued()]
    toy_cycle = cycle(work(currentpriority=500.0), weights=weights, load_weights=moving)
    decision = decision_of(toy_cycle, only(toy_cycle))
    best = decision.candidates[0]
    assert (best.name, best.weight) == ("S_PLAIN", 8.0)
    assert best.factors == {"fewer_queued": 1.0, "two": 2.0, "column": 4.0}
    for candidate in decision.candidates:
        product = 1.0
        for factor in candidate.factors.values():
            product *= factor
        assert candidate.weight == pytest.approx(product, rel=1e-12)


@pytest.mark.parametrize(("ramcount", "expected"), [(2000.0, 2000.0), (None, None), (0.0, 0.0)])
def test_a_decision_identifies_its_chunk(ramcount: float | None, expected: float | None) -> None:
    toy_cycle = cycle(work(jeditaskid=77, datasetid=88, ramcount=ramcount))
    decision = decision_of(toy_cycle, only(toy_cycle))
    assert (decision.jeditaskid, decision.datasetid, decision.ramcount) == (77, 88, expected)
    assert decision.brokerage == "toy"


def test_a_broken_rule_is_noted() -> None:
    toy_cycle = cycle(work(), [Toy("broken", ValueError("x"), unknown_policy="keep")])
    assert decision_of(toy_cycle, only(toy_cycle)).notes == ("rule_fault:broken",)


MASKS = st.lists(st.booleans(), min_size=5, max_size=5)
RULES = st.lists(st.tuples(MASKS, MASKS, st.sampled_from(["persistent", "temporary"]), st.booleans()), max_size=4)


@settings(deadline=None, max_examples=60)
@given(RULES, st.sampled_from([-1, 0]), st.sampled_from(["NUC", "GONE", None]), st.sampled_from([None, "N_UCORE", "X"]))
def test_the_funnel_adds_up(rules: list[Any], limit: int, nucleus: str | None, site: str | None) -> None:
    filters = [
        Toy(f"r{index}", mask(keep), kind=kind, unknown=mask(unknown), unknown_policy="reject" if strict else "keep")
        for index, (keep, unknown, kind, strict) in enumerate(rules)
    ]
    toy_cycle = cycle(work(nucleus=nucleus, site=site), filters, cuts=[AtMost(limit)])
    result = only(toy_cycle)
    decision = decision_of(toy_cycle, result)
    initial = int(result.block.facts.initial.sum())
    ends = (decision.funnel[0].before, decision.funnel[-1].after) if decision.funnel else (initial, initial)
    assert ends == (initial, len(decision.candidates))
    for previous, following in zip(decision.funnel, decision.funnel[1:], strict=False):
        assert previous.after == following.before
    assert all(step.before > step.after for step in decision.funnel)
    pseudo = set(toy_cycle.snapshot.queues.name)
    chosen, out = {candidate.name for candidate in decision.candidates}, set(decision.rejected) & pseudo
    assert not chosen & out
    assert len(chosen) + len(out) == initial
