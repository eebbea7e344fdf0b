"""The network weight: known values, its switch, and one weight per nucleus and link."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.weights.network import Network
from tests.rules.builders import factors_of, make_facts, make_queues, make_tasks, tuning_for


def weight(tuning: dict[str, Any] | None = None, **facts: Any) -> float:
    rule = Network()
    fact_table = make_facts(**{"closeness": None, **facts})
    return float(
        factors_of(rule, JobPairs(make_tasks(), make_queues(), fact_table, tuning_for(rule, **(tuning or {})))).item()
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, 1.65),
        ({"link_queued": None}, 1.65),
        ({"closeness": 0.0}, 2.0),
        ({"closeness": 11.0}, 1.5),
        ({"link_queued": 30.0, "throughput_mb_per_s": 60.0}, 1.7),
        ({"link_queued": 149.0, "closeness": 11.0}, 0.5 * (2 - 149 / 150) + 0.5),
        ({"link_queued": 150.0, "closeness": 11.0}, 1.0),
        ({"link_queued": 150.0, "closeness": 11.0, "storage_at_nucleus": True}, 2.5),
        ({"link_queued": 1e9, "closeness": 11.0}, 0.0),
    ],
    ids=str,
)
def test_known_values(facts: dict[str, Any], expected: float) -> None:
    assert weight(**facts) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("step", "up_to", "above"),
    [
        (1.0, 1.0, 1.1),
        (2.0, 1.1, 1.2),
        (10.0, 1.2, 1.3),
        (20.0, 1.3, 1.5),
        (50.0, 1.5, 1.6),
        (75.0, 1.6, 1.8),
        (100.0, 1.8, 1.9),
        (200.0, 1.9, 2.0),
    ],
)
def test_throughput_steps(step: float, up_to: float, above: float) -> None:
    tuning = {"NW_QUEUE_IMPORTANCE": 0.0}
    assert weight(tuning, throughput_mb_per_s=step, closeness=0.0) == pytest.approx(up_to)
    assert weight(tuning, throughput_mb_per_s=step * 1.001, closeness=0.0) == pytest.approx(above)


def test_importance_and_cap_can_be_tuned() -> None:
    assert weight({"NW_QUEUE_IMPORTANCE": 1.0}, link_queued=75.0) == pytest.approx(1.5)
    assert weight({"NW_QUEUE_IMPORTANCE": 1.0, "NQUEUED_SAT_CAP": 300}, link_queued=75.0) == pytest.approx(1.75)


@pytest.mark.parametrize("queued", [None, 0.0, 1e9])
def test_at_a_cap_of_0_every_link_is_full(queued: float | None) -> None:
    assert weight({"NW_QUEUE_IMPORTANCE": 1.0, "NQUEUED_SAT_CAP": 0}, link_queued=queued) == 1.0


def test_the_network_weight_can_be_switched_off() -> None:
    assert weight({"NW_ACTIVE": False}, storage_at_nucleus=True) == 1.0


def test_chunks_of_one_nucleus_share_a_link_except_express_ones() -> None:
    rule = Network()
    tasks = make_tasks(4, nucleus=["A", "B", "A", "A"])
    facts = make_facts(
        4, 2, closeness=None, urgent=[False, False, False, True], link_queued=[0, 150, 75, 75, 0, 150, 30, 60]
    )
    factors = factors_of(rule, JobPairs(tasks, make_queues(2), facts, tuning_for(rule, NW_QUEUE_IMPORTANCE=1.0)))
    assert np.allclose(factors, [[2.0, 1.0], [1.5, 1.5], [2.0, 1.0], [1.8, 1.6]])
