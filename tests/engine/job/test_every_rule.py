"""The verdict of every rule on a candidate, including rules behind the deciding one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.engine.job.decision import every_rule
from broker.snapshot.raw import SourceState
from tests.engine.toy_cycle import cycle, only
from tests.engine.toy_rules import AtMost, KeepAmong, Toy, mask

ALL, NONE = mask([1, 1, 1, 1, 1]), mask([0, 0, 0, 0, 0])


def verdicts(*filters: Any, name: str = "N_PLAIN", **more: Any) -> list[str]:
    toy_cycle = cycle(None, filters, **more)
    return [answer.verdict for answer in every_rule(toy_cycle, only(toy_cycle), name)]


def test_rules_behind_a_persistent_rejection_are_not_reached() -> None:
    assert verdicts(Toy("a", ALL), Toy("b", NONE), Toy("c", ALL)) == ["pass", "fail", "not_reached"]


def test_rules_behind_a_temporary_rejection_are_reached() -> None:
    assert verdicts(Toy("a", NONE, kind="temporary"), Toy("b", NONE), Toy("c", ALL)) == ["fail", "fail", "not_reached"]
    after = Toy("b", ALL, after_temporary=True)
    assert verdicts(Toy("a", NONE, kind="temporary"), after) == ["fail", "not_reached"]
    assert verdicts(Toy("a", ALL, kind="temporary"), after) == ["pass", "pass"]


def test_a_rule_that_does_not_apply_to_the_chunk() -> None:
    assert verdicts(Toy("a", NONE, applies=np.zeros((1, 1), dtype=np.bool_)), Toy("b", ALL)) == ["not_asked", "pass"]


@pytest.mark.parametrize(("policy", "behind"), [("reject", "not_reached"), ("keep", "pass")])
def test_unknown_values_follow_the_policy_of_the_rule(policy: str, behind: str) -> None:
    rule = Toy("a", ALL, unknown=ALL, unknown_policy=policy)
    assert verdicts(rule, Toy("b", ALL)) == ["unknown", behind]
    states = (SourceState("links", "stale", 5, 99.0, 60.0),)
    unread = Toy("a", ALL, sources=("links",), unknown_policy=policy)
    assert verdicts(unread, Toy("b", ALL), states=states) == ["unknown", behind]


def test_a_rule_that_compares_candidates_fails_the_candidate_that_it_cut() -> None:
    first = KeepAmong("a", lambda alive: np.arange(alive.shape[1])[None, :] == 0)
    assert verdicts(first, Toy("b", ALL)) == ["pass", "pass"]
    others = KeepAmong("a", lambda alive: np.arange(alive.shape[1])[None, :] != 0)
    assert verdicts(others, Toy("b", ALL)) == ["fail", "not_reached"]


def test_a_rule_that_compares_candidates_passes_those_that_it_did_not_decide() -> None:
    every = KeepAmong("b", lambda alive: np.ones_like(alive))
    assert verdicts(Toy("a", ALL), every) == ["pass", "pass"], (
        "nothing rejected the candidate, and this rule is the last"
    )
    assert verdicts(every, Toy("a", ALL), cuts=[AtMost(-1)]) == ["pass", "pass"], "the first cut did"


@pytest.mark.parametrize("name", ["GONE", "S_TEST"])
def test_a_queue_that_was_never_a_candidate_has_no_verdicts(name: str) -> None:
    assert verdicts(Toy("a", ALL), name=name) == []
