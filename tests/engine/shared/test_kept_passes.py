"""A second pass over some chunks of a block: filters with unchanged answers are not evaluated again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import RowsByKind
from broker.engine.shared.evaluate import UNDECLARED, RuleViews, evaluate
from broker.engine.shared.filter_cache import Evaluation
from broker.engine.shared.pass_cache import Passes, of_chunks
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import JobPairs
from tests.engine.toy_facts import toy_facts
from tests.engine.toy_rules import Toy, mask
from tests.rules.builders import make_queues, make_tasks

KEEP = mask([1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1])


class Same(Toy):
    """A rule that declares the same answers in both passes and counts its calls."""

    same_in_passes = True
    asked = 0

    def keep(self, pairs: JobPairs) -> Any:
        self.__dict__["asked"] = self.asked + 1
        return super().keep(pairs)


class Derived(Same):
    """A subclass that does not declare it itself."""


def evaluate_rule(rule: Toy, chunks: list[int], passes: Passes) -> Evaluation:
    tasks, queues = make_tasks(len(chunks), jeditaskid=chunks), make_queues(3)
    rows = np.array(chunks)
    facts = toy_facts(mask(*[[1, 1, 1]] * len(chunks)))
    pairs = JobPairs(tasks, queues, facts, UNDECLARED, rows, np.arange(3))
    views = RuleViews({rule.name: Tuning.defaults().only(())})
    return evaluate([rule], pairs, views, passes=passes)


@pytest.mark.parametrize("applies", [None, mask([1], [0], [1], [1]), mask([0], [0], [1], [0])])
@pytest.mark.parametrize("unknown", [None, mask([0, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0])])
@pytest.mark.parametrize("by_kind", [False, True])
def test_answers_of_the_first_pass_are_reused(applies: Any, unknown: Any, by_kind: bool) -> None:
    def rows_of(values: Any, tasks: Any) -> Any:
        return values[tasks.jeditaskid[:, 0]]

    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        return RowsByKind(KEEP, tasks.jeditaskid[:, 0]) if by_kind else rows_of(KEEP, tasks)

    rule = Same(
        "a",
        keep,
        applies=None if applies is None else lambda tasks, *_: rows_of(applies, tasks),
        unknown=None if unknown is None else lambda tasks, *_: rows_of(unknown, tasks),
    )
    cache: dict[str, Any] = {}
    evaluate_rule(rule, [0, 1, 2, 3], Passes(noted=cache))
    rows = np.array([1, 2])
    second = evaluate_rule(rule, [1, 2], Passes(of_chunks(cache, rows, 4)))
    assert rule.asked == 1
    alone = evaluate_rule(rule, [1, 2], Passes())
    assert (second.reason.tolist(), second.feasible.tolist()) == (alone.reason.tolist(), alone.feasible.tolist())


@pytest.mark.parametrize("rule", [Toy("a", mask([0, 1, 1])), Derived("a", mask([0, 1, 1]))])
def test_rules_that_do_not_declare_it_themselves_are_evaluated_again(rule: Toy) -> None:
    cache: dict[str, Any] = {}
    evaluate_rule(rule, [0, 1], Passes(noted=cache))
    assert cache == {}
