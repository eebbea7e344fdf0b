"""A second pass over some chunks of a block: filters that answer alike are not asked again."""

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
    """One that says that it answers alike, and counts how often it is asked."""

    same_in_passes = True
    asked = 0

    def keep(self, pairs: JobPairs) -> Any:
        self.__dict__["asked"] = self.asked + 1
        return super().keep(pairs)


class Derived(Same):
    """One that is derived from it, and says nothing."""


def judged(rule: Toy, chunks: list[int], passes: Passes) -> Evaluation:
    tasks, queues = make_tasks(len(chunks), jeditaskid=chunks), make_queues(3)
    rows = np.array(chunks)
    facts = toy_facts(mask(*[[1, 1, 1]] * len(chunks)))
    pairs = JobPairs(tasks, queues, facts, UNDECLARED, rows, np.arange(3))
    views = RuleViews({rule.name: Tuning.defaults().only(())})
    return evaluate([rule], pairs, views, passes=passes)


@pytest.mark.parametrize("applies", [None, mask([1], [0], [1], [1]), mask([0], [0], [1], [0])])
@pytest.mark.parametrize("unknown", [None, mask([0, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0])])
@pytest.mark.parametrize("by_kind", [False, True])
def test_answers_of_the_first_pass(applies: Any, unknown: Any, by_kind: bool) -> None:
    def ask(values: Any, tasks: Any) -> Any:
        return values[tasks.jeditaskid[:, 0]]

    def keep(tasks: Any, candidates: Any, facts: Any) -> Any:
        return RowsByKind(KEEP, tasks.jeditaskid[:, 0]) if by_kind else ask(KEEP, tasks)

    rule = Same(
        "a",
        keep,
        applies=None if applies is None else lambda tasks, *_: ask(applies, tasks),
        unknown=None if unknown is None else lambda tasks, *_: ask(unknown, tasks),
    )
    noted: dict[str, Any] = {}
    judged(rule, [0, 1, 2, 3], Passes(noted=noted))
    again = np.array([1, 2])
    found = judged(rule, [1, 2], Passes(of_chunks(noted, again, 4)))
    assert rule.asked == 1
    alone = judged(rule, [1, 2], Passes())
    assert (found.reason.tolist(), found.feasible.tolist()) == (alone.reason.tolist(), alone.feasible.tolist())


@pytest.mark.parametrize("rule", [Toy("a", mask([0, 1, 1])), Derived("a", mask([0, 1, 1]))])
def test_rules_that_do_not_say_so_themselves_are_asked_again(rule: Toy) -> None:
    noted: dict[str, Any] = {}
    judged(rule, [0, 1], Passes(noted=noted))
    assert noted == {}
