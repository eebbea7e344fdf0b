"""Overloaded queues get work only if no other queue remains, and without virtual placement."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.analysis import AnalysisFacts
from broker.rules.analysis_job.filters.overloaded import Overloaded
from broker.rules.contract import AnalysisPairs
from tests.rules.builders import facts_of, make_queues, make_tasks, tuning_for

BOTH = [True, True]


@pytest.mark.parametrize(
    ("activated", "alive", "without_vp", "expected"),
    [
        ([20.0, 20.0], BOTH, BOTH, [True, True]),
        ([21.0, 20.0], BOTH, BOTH, [False, True]),
        # the other queue was rejected before: queues with the input itself stay
        ([21.0, 20.0], [True, False], BOTH, [True, True]),
        ([21.0, 21.0], BOTH, [True, False], [True, False]),
    ],
)
def test_overloaded(activated: list[float], alive: list[bool], without_vp: list[bool], expected: list[bool]) -> None:
    rule = Overloaded()
    facts = facts_of(AnalysisFacts, 1, 2, activated=[activated], running=0.0, without_vp=[without_vp])
    pairs = AnalysisPairs(make_tasks(), make_queues(2), facts, tuning_for(rule))
    assert rule.keep_among(np.array([alive]), pairs).tolist() == [expected]


@pytest.mark.parametrize("state", ["defined", "assigned", "activated", "starting"])
def test_each_waiting_state_counts(state: str) -> None:
    rule = Overloaded()
    facts = facts_of(AnalysisFacts, 1, 2, **{state: [[21.0, 0.0]]}, running=0.0, without_vp=[BOTH])
    pairs = AnalysisPairs(make_tasks(), make_queues(2), facts, tuning_for(rule))
    assert rule.keep_among(np.array([BOTH]), pairs).tolist() == [[False, True]]


def test_the_observation_counts_all_waiting_jobs() -> None:
    rule = Overloaded()
    facts = facts_of(AnalysisFacts, 1, 1, defined=1.0, assigned=2.0, activated=4.0, starting=8.0, running=16.0)
    observation = rule.observe(AnalysisPairs(make_tasks(), make_queues(), facts, tuning_for(rule)))
    assert observation.inputs == {"queued": 15.0, "running": 16.0}


@pytest.mark.parametrize("merging", [True, False])
def test_the_rule_does_not_apply_to_merging(merging: bool) -> None:
    rule = Overloaded()
    pairs = AnalysisPairs(make_tasks(merging=merging), make_queues(), facts_of(AnalysisFacts, 1, 1), tuning_for(rule))
    assert rule.applies(pairs).tolist() == [[not merging]]
