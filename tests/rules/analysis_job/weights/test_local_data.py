"""The weight of local data is computed with the data facts and used unchanged."""

from __future__ import annotations

import pytest

from broker.domain.analysis import AnalysisFacts
from broker.rules.analysis_job.weights.local_data import LocalData
from broker.rules.contract import AnalysisPairs
from tests.rules.builders import factors_of, facts_of, make_queues, make_tasks, tuning_for


@pytest.mark.parametrize("values", [[1.0, 2.001], [0.0, 1e-6], [3.2, 3.2]])
def test_factor(values: list[float]) -> None:
    rule = LocalData()
    facts = facts_of(AnalysisFacts, 1, 2, locality_weight=values)
    assert factors_of(rule, AnalysisPairs(make_tasks(), make_queues(2), facts, tuning_for(rule))).tolist() == [values]
