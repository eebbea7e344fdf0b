"""Which chunks get a second pass, and the combined result of both passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import Bools
from broker.engine.analysis.chain import AnalysisChain
from broker.engine.analysis.passes import passing, second_pass, too_few, with_problems
from broker.engine.analysis.steps import CandidateNumber
from broker.engine.shared.filter_cache import Evaluation
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from tests.engine.toy_rules import Toy

CLOSED, BUSY = 0, 1
"""The toy rules: one that rejects for good, and one that declares its rejections to be temporary issues."""
UNKNOWN_CLOSED, UNKNOWN_BUSY = 2, 3
CHAIN = AnalysisChain(
    "toy", (Toy("closed", lambda *_: None), Toy("busy", lambda *_: None, temporary_issue=True)), (), (), ()
)


def evaluation(*rows: list[int]) -> Evaluation:
    reason = np.array(rows, dtype=np.int16)
    return Evaluation(reason == FEASIBLE, reason, ())


def test_temporary_rejections_count_as_passed() -> None:
    flags = passing(CHAIN, evaluation([FEASIBLE, CLOSED, BUSY, UNKNOWN_CLOSED, UNKNOWN_BUSY, NOT_A_CANDIDATE]))
    assert flags.tolist() == [[True, False, True, False, True, False]]


def test_a_rule_that_declares_nothing_rejects_for_good_whatever_its_kind() -> None:
    chain = AnalysisChain("toy", (Toy("queue_cap", lambda *_: None, kind="temporary"),), (), (), ())
    assert passing(chain, evaluation([FEASIBLE, 0, 1, NOT_A_CANDIDATE])).tolist() == [[True, False, False, False]]
    assert not with_problems(chain, evaluation([FEASIBLE, 0, 1, NOT_A_CANDIDATE])).any()


def test_a_rule_declares_problems_of_the_user() -> None:
    rules = (Toy("closed", lambda *_: None), Toy("unlucky", lambda *_: None, problem_for_user=True))
    flags = with_problems(AnalysisChain("toy", rules, (), (), ()), evaluation([FEASIBLE, 0, 1, 2, 3, NOT_A_CANDIDATE]))
    assert flags.tolist() == [[False, False, True, False, True, False]]


def test_a_rule_declares_which_queues_lack_files() -> None:
    step, reason = CandidateNumber().configured({"without_files": "take_a_place"}), np.array([[FEASIBLE, 0, 1, 2]])
    rules = [Toy(name, lambda *_: None, lacks_files=name == "no_files") for name in ("closed", "no_files", "busy")]
    taking = step.taking(reason, rules)
    assert taking is not None and taking.tolist() == [[False, False, True, False]]
    assert step.taking(reason, rules[:1]) is None
    assert CandidateNumber().taking(reason, rules) is None


@pytest.mark.parametrize(("count", "required", "few"), [(0, 1, True), (1, 1, False), (2, 3, True), (3, 3, False)])
def test_too_few(count: int, required: int, few: bool) -> None:
    flags = np.array([[at < count for at in range(4)]])
    assert too_few(flags, np.array([required])).tolist() == [few]


class Judge:
    """Gives prepared answers for all filters and for the temporary ones; records the candidates."""

    def __init__(self, second: list[int], third: list[int] | None = None) -> None:
        self._answers = [second, third]
        self.candidates: list[Any] = []

    def __call__(self, filters: Any, candidates: Bools | None) -> Evaluation:
        self.candidates.append(None if candidates is None else candidates[0].tolist())
        answer = self._answers[0 if candidates is None else 1]
        assert answer is not None and len(filters) == (2 if candidates is None else 1)
        return evaluation(answer)


def result_after(first: list[int], evaluate_block: Judge, required: int) -> tuple[list[int], list[bool]]:
    combined = second_pass(
        CHAIN, evaluation([FEASIBLE] * len(first), first), np.array([1]), np.array([1, required]), evaluate_block
    )
    # the other chunk of the block stays as it is
    assert combined.reason[0].tolist() == [FEASIBLE] * len(first) and combined.feasible[0].all()
    return combined.reason[1].tolist(), combined.feasible[1].tolist()


def test_after_an_empty_first_pass_the_second_counts_alone() -> None:
    evaluate_block = Judge([FEASIBLE, BUSY, CLOSED])
    assert result_after([CLOSED] * 3, evaluate_block, 1) == ([FEASIBLE, BUSY, CLOSED], [True, False, False])
    assert evaluate_block.candidates == [None]


@pytest.mark.parametrize(("required", "feasible"), [(2, [True, True, False]), (3, [False, False, False])])
def test_after_an_empty_first_pass_the_second_must_have_enough(required: int, feasible: list[bool]) -> None:
    assert result_after([CLOSED] * 3, Judge([FEASIBLE, FEASIBLE, CLOSED]), required)[1] == feasible


def test_both_passes_together() -> None:
    """The first keeps queue 0, the second keeps 1 and skips 2 for now; the three are checked for temporary issues."""
    evaluate_block = Judge([CLOSED, FEASIBLE, BUSY, CLOSED], [FEASIBLE, FEASIBLE, 0, NOT_A_CANDIDATE])
    reason, feasible = result_after([FEASIBLE, CLOSED, CLOSED, CLOSED], evaluate_block, 9)
    assert evaluate_block.candidates == [None, [True, True, True, False]]
    # 0 is the position of the rule among the temporary ones
    assert (reason, feasible) == ([FEASIBLE, FEASIBLE, BUSY, CLOSED], [True, True, False, False])


def test_a_second_pass_without_any_queue_ends_the_search() -> None:
    reason, feasible = result_after([FEASIBLE, CLOSED], Judge([CLOSED, CLOSED]), 2)
    assert (reason, feasible) == ([CLOSED, CLOSED], [False, False])
