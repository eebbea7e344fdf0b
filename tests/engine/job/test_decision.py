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


def rejected(*filters: Any, **more: Any) -> dict[str, str]:
    found = cycle(work(currentpriority=500.0), filters, **more)
    return decision_of(found, only(found)).rejected


def test_a_queue_that_is_not_unified_is_named_once() -> None:
    assert rejected(Toy("a", mask([0, 1, 1, 1, 1]))) == {"N_PLAIN": "code_a"}


def test_a_unified_queue_is_rejected_when_all_its_pseudo_queues_are() -> None:
    assert rejected(Toy("a", mask([1, 0, 1, 1, 1]))) == {"N_UCORE/MCORE": "code_a"}
    both = rejected(Toy("a", mask([1, 0, 0, 1, 1])))
    assert both == {"N_UCORE/MCORE": "code_a", "N_UCORE/SCORE": "code_a", "N_UCORE": "code_a"}


@pytest.mark.parametrize(("first", "code"), [("MCORE", "code_b"), ("SCORE", "code_b")])
def test_it_shows_the_code_of_the_last_to_go(first: str, code: str) -> None:
    early, late = (mask([1, 0, 1, 1, 1]), mask([1, 1, 0, 1, 1]))
    if first == "SCORE":
        early, late = late, early
    assert rejected(Toy("a", early), Toy("b", late))["N_UCORE"] == code


def test_those_rejected_for_now_go_after_those_rejected_for_good() -> None:
    codes = rejected(Toy("now", mask([1, 0, 1, 1, 1]), kind="temporary"), Toy("good", mask([1, 1, 0, 1, 1])))
    assert codes["N_UCORE"] == "code_now"


def test_those_cut_after_weighing_go_last() -> None:
    filters = [Toy("now", mask([1, 1, 0, 1, 1]), kind="temporary")]
    codes = rejected(*filters, cuts=[AtMost(-1)])
    assert codes["N_UCORE"] == codes["S_PLAIN"] == "at_most"


def test_what_is_unknown_is_named_so() -> None:
    rule = Toy("a", mask([1]), unknown=mask([1, 0, 0, 0, 0]))
    assert rejected(rule) == {"N_PLAIN": "unknown_a"}
    states = (SourceState("links", "missing", 0, None, None),)
    assert set(rejected(Toy("a", mask([1]), sources=("links",)), states=states).values()) == {"unknown_a"}


def test_test_queues_and_other_queues_than_the_named_are_not_in_the_funnel() -> None:
    found = cycle(work(site="N_PLAIN,GONE,S_TEST"), [Toy("a", mask([1, 1, 1, 1, 0]))])
    decision = decision_of(found, only(found))
    assert decision.rejected == {"S_TEST": "code_a", "GONE": "unknown_queue"}
    assert decision.funnel[0] == FunnelStep("code_a", 2, 1)
    assert [one.name for one in decision.candidates] == ["N_PLAIN"]


def test_the_funnel_names_in_order_the_rules_that_rejected_any() -> None:
    filters = [
        Toy("a", mask([1, 0, 1, 1, 1])),
        Toy("b", mask([1]), unknown=mask([0, 0, 1, 0, 0])),
        Toy("c", mask([1, 1, 1, 1, 1])),
    ]
    found = cycle(work(currentpriority=500.0), filters, cuts=[AtMost(0)])
    assert [(step.code, step.before, step.after) for step in decision_of(found, only(found)).funnel] == [
        ("code_a", 4, 3),
        ("unknown_b", 3, 2),
    ]


def test_a_blocked_chunk_ends_its_funnel_with_the_reason() -> None:
    found = cycle(work(nucleus="GONE"), [Toy("a", mask([1, 0, 1, 1, 1]))])
    decision = decision_of(found, only(found))
    assert (decision.outcome, decision.reason) == ("pending", "unknown_nucleus")
    assert decision.funnel[-1] == FunnelStep("unknown_nucleus", 3, 0)


def test_a_candidate_with_its_factors() -> None:
    weights, moving = [Factor("two", 2.0), Factor("column", [[1.0, 2.0, 3.0, 4.0, 5.0]])], [FewerQueued()]
    found = cycle(work(currentpriority=500.0), weights=weights, load_weights=moving)
    decision = decision_of(found, only(found))
    best = decision.candidates[0]
    assert (best.name, best.weight) == ("S_PLAIN", 8.0)
    assert best.factors == {"fewer_queued": 1.0, "two": 2.0, "column": 4.0}
    for one in decision.candidates:
        product = 1.0
        for factor in one.factors.values():
            product *= factor
        assert one.weight == pytest.approx(product, rel=1e-12)


@pytest.mark.parametrize(("ramcount", "expected"), [(2000.0, 2000.0), (None, None), (0.0, 0.0)])
def test_which_chunk_it_is(ramcount: float | None, expected: float | None) -> None:
    found = cycle(work(jeditaskid=77, datasetid=88, ramcount=ramcount))
    decision = decision_of(found, only(found))
    assert (decision.jeditaskid, decision.datasetid, decision.ramcount) == (77, 88, expected)
    assert decision.brokerage == "toy"


def test_a_broken_rule_is_noted() -> None:
    found = cycle(work(), [Toy("broken", ValueError("x"), unknown_policy="keep")])
    assert decision_of(found, only(found)).notes == ("rule_fault:broken",)


MASKS = st.lists(st.booleans(), min_size=5, max_size=5)
RULES = st.lists(st.tuples(MASKS, MASKS, st.sampled_from(["persistent", "temporary"]), st.booleans()), max_size=4)


@settings(deadline=None, max_examples=60)
@given(RULES, st.sampled_from([-1, 0]), st.sampled_from(["NUC", "GONE", None]), st.sampled_from([None, "N_UCORE", "X"]))
def test_the_funnel_adds_up(rules: list[Any], limit: int, nucleus: str | None, site: str | None) -> None:
    filters = [
        Toy(f"r{index}", mask(keep), kind=kind, unknown=mask(unknown), unknown_policy="reject" if strict else "keep")
        for index, (keep, unknown, kind, strict) in enumerate(rules)
    ]
    found = cycle(work(nucleus=nucleus, site=site), filters, cuts=[AtMost(limit)])
    result = only(found)
    decision = decision_of(found, result)
    initial = int(result.block.facts.initial.sum())
    ends = (decision.funnel[0].before, decision.funnel[-1].after) if decision.funnel else (initial, initial)
    assert ends == (initial, len(decision.candidates))
    for one, following in zip(decision.funnel, decision.funnel[1:], strict=False):
        assert one.after == following.before
    assert all(step.before > step.after for step in decision.funnel)
    pseudo = set(found.snapshot.queues.name)
    chosen, out = {one.name for one in decision.candidates}, set(decision.rejected) & pseudo
    assert not chosen & out
    assert len(chosen) + len(out) == initial
