"""A remaining queue without a time limit stops all chunks with a walltime."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.generic_job.filters.maxtime_missing import MaxtimeMissing
from tests.rules.builders import make_facts, make_queues, make_tasks, pairs_of, tuning_for


@pytest.mark.parametrize(
    ("maxtime", "alive", "expected"),
    [
        ([3600.0, 0.0], [True, True], [True, True]),
        ([3600.0, np.nan], [True, True], [False, False]),
        ([3600.0, np.nan], [True, False], [True, True]),
        ([np.nan, 0.0], [False, True], [True, True]),
    ],
)
def test_maxtime_missing(maxtime: list[float], alive: list[bool], expected: list[bool]) -> None:
    rule = MaxtimeMissing()
    queues = make_queues(2, maxtime_s=np.array([maxtime]))
    pairs = pairs_of(rule, make_tasks(walltime=60.0), queues, make_facts(1, 2), tuning_for(rule))
    assert rule.keep_among(np.array([alive]), pairs).tolist() == [expected]


@pytest.mark.parametrize(("walltime", "applies"), [(60.0, True), (0.0, False), (None, False)])
def test_the_rule_applies_only_to_chunks_with_a_walltime(walltime: float | None, applies: bool) -> None:
    rule = MaxtimeMissing()
    pairs = pairs_of(rule, make_tasks(walltime=walltime), make_queues(), make_facts(), tuning_for(rule))
    assert rule.applies(pairs).tolist() == [[applies]]
