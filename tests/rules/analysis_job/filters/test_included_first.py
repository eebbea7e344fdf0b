"""Reserve queues get work only if no queue of the task's list remains."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.analysis import AnalysisFacts
from broker.rules.analysis_job.filters.included_first import IncludedFirst
from broker.rules.contract import AnalysisPairs
from tests.rules.builders import facts_of, make_queues, make_tasks, passes, tuning_for


@pytest.mark.parametrize(
    ("reserve", "alive", "expected"),
    [
        ([True, False], [True, True], [False, True]),
        # the listed queue was rejected before
        ([True, False], [True, False], [True, True]),
        ([True, True], [True, True], [True, True]),
        ([False, False], [True, True], [True, True]),
        ([True, True, False], [True, False, True], [False, False, True]),
    ],
)
def test_included_first(reserve: list[bool], alive: list[bool], expected: list[bool]) -> None:
    rule, count = IncludedFirst(), len(reserve)
    facts = facts_of(AnalysisFacts, 1, count, reserve=reserve)
    keep = rule.keep_among(np.array([alive]), AnalysisPairs(make_tasks(), make_queues(count), facts, tuning_for(rule)))
    assert keep.tolist() == [expected]


def test_the_rule_does_not_apply_to_chunks_without_a_reserve() -> None:
    rule = IncludedFirst()
    facts = facts_of(AnalysisFacts, 2, 2, reserve=[True, False, False, False])
    applies = rule.applies(AnalysisPairs(make_tasks(2), make_queues(2), facts, tuning_for(rule)))
    assert applies is not None and applies.tolist() == [[True], [False]]
    assert passes(rule, make_tasks(2), make_queues(2), facts, tuning_for(rule)).tolist() == [
        [False, True],
        [True, True],
    ]
