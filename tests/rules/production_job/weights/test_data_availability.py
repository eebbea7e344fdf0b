"""Available input raises the weight; missing files lower it."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.weights.data_availability import DataAvailability
from tests.rules.builders import factors_of, make_facts, make_queues, make_tasks, tuning_for


@pytest.mark.parametrize(
    ("total_bytes", "total_files", "available_bytes", "available_files", "expected"),
    [
        (1000.0, 10.0, 1000.0, 10.0, 2.0),
        (1000.0, 10.0, 0.0, 10.0, 1.0),
        (1000.0, 100.0, 500.0, 50.0, 1.0),  # 1.5 / 1.5
        (1000.0, 100.0, 0.0, 0.0, 0.5),
        (1000.0, 300.0, 0.0, 0.0, 0.25),
        (1000.0, 100.0, None, None, 0.5),
        (0.0, 0.0, 0.0, 0.0, 1.0),
        (0.0, 100.0, 0.0, 0.0, 1.0),
        (1000.0, 10.0, 1000.0, 11.0, 2.0),
    ],
)
def test_factor(
    total_bytes: float,
    total_files: float,
    available_bytes: float | None,
    available_files: float | None,
    expected: float,
) -> None:
    rule = DataAvailability()
    facts = make_facts(
        total_bytes=total_bytes,
        total_files=total_files,
        available_bytes=available_bytes,
        available_files=available_files,
    )
    assert factors_of(rule, JobPairs(make_tasks(), make_queues(), facts, tuning_for(rule))).item() == expected


def test_chunks_without_input_do_not_affect_others() -> None:
    rule = DataAvailability()
    facts = make_facts(2, 2, total_bytes=[0.0, 1000.0], total_files=[0.0, 1.0], available_bytes=[0, 0, 1000, 0])
    factor = factors_of(rule, JobPairs(make_tasks(2), make_queues(2), facts, tuning_for(rule)))
    assert np.broadcast_to(factor, (2, 2)).tolist() == [[1.0, 1.0], [2.0, 1.0]]
