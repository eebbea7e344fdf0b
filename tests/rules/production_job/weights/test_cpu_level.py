"""The percentage of CPUs of the preferred level gives a weight between 1 and 2."""

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


@pytest.mark.parametrize(
    ("option", "transhome", "expected"),
    [("counts", None, 1.4), ("none", None, 1.0), ("none", "Athena-24.0.41", 1.4), ("counts", "Athena-24.0.41", 1.4)],
)
def test_a_task_without_a_release(option: str, transhome: str | None, expected: float) -> None:
    rule = CpuLevel().configured({"without_release": option})
    tasks = make_tasks(transhome=transhome)
    pairs = JobPairs(tasks, make_queues(), make_facts(preferred_cpu_percent=40.0), tuning_for(rule))
    assert factors_of(rule, pairs).item() == pytest.approx(expected)
