"""Boosts for queues at the nucleus: t1Weight or IO intensity, against urgency."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.contract import TaskPairs
from broker.rules.production_job.weights.nucleus_boost import NucleusBoost
from tests.rules.builders import factors_of, make_facts, make_queues, make_tasks, split, tuning_for


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, 1.0),
        ({"t1weight": 3.0}, 3.0),
        ({"t1weight": -1.0}, 1.0),
        ({"t1weight": -5.0, "iointensity": 501.0}, 1.0),
        ({"iointensity": 500.0}, 1.0),
        ({"iointensity": 501.0}, 4.0),
        ({"iointensity": None}, 1.0),
        ({"iointensity": 501.0, "t1weight": 2.0}, 2.0),
        ({"currentpriority": 899.0}, 1.0),
        ({"currentpriority": 900.0}, 100.0),
        ({"currentpriority": None}, 1.0),
        ({"scout": True}, 100.0),
        ({"scout": True, "t1weight": 200.0}, 200.0),
        ({"scout": True, "one_preassigned": True}, 1.0),
        ({"scout": True, "listed": True, "iointensity": 501.0}, 4.0),
        ({"scout": True, "eventservice": 1.0}, 1.0),
        ({"scout": True, "eventservice": 2.0}, 1.0),
    ],
    ids=str,
)
def test_factor(columns: dict[str, Any], expected: float) -> None:
    rule = NucleusBoost()
    tasks, _, facts, _ = split(columns)
    for location, factor in (({"at_nucleus": True}, expected), ({"shares_storage": True}, expected), ({}, 1.0)):
        fact_table = make_facts(**facts, **location)
        assert (
            factors_of(rule, TaskPairs(make_tasks(**tasks), make_queues(), fact_table, tuning_for(rule))).item()
            == factor
        )
