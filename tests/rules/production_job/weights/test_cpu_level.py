"""The share of CPUs of the preferred level weighs between 1 and 2."""

from __future__ import annotations

import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.weights.cpu_level import CpuLevel
from tests.rules.builders import factors_of, make_facts, make_queues, make_tasks, tuning_for


@pytest.mark.parametrize(("percent", "expected"), [(0.0, 1.0), (40.0, 1.4), (100.0, 2.0)])
def test_factor(percent: float, expected: float) -> None:
    rule = CpuLevel()
    pairs = JobPairs(make_tasks(), make_queues(), make_facts(preferred_cpu_percent=percent), tuning_for(rule))
    assert factors_of(rule, pairs).item() == pytest.approx(expected)
