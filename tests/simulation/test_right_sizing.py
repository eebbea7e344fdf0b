"""Memory requests of simulated jobs: by their kind first, then by PanDA's formula, then by the learned quantile."""

from __future__ import annotations

import math

import numpy as np
import pytest

from broker.domain.memory_prior import used_memory
from broker.simulation.model.right_sizing import MemoryRecord, Requests, record_of_new

NEEDS = [1000.0, 1100.0, 1200.0, 1300.0, 5000.0]


@pytest.mark.parametrize(
    ("by", "needs", "expected_mb"),
    [("learned", NEEDS, 5500.0), ("both", NEEDS, 5500.0), ("both", NEEDS[:4], None), ("scouts", NEEDS, None)],
)
def test_a_new_task_requests_enough_memory_for_its_kind(
    by: Requests, needs: list[float], expected_mb: float | None
) -> None:
    assert record_of_new(by, needs).request_mb == (None if expected_mb is None else pytest.approx(expected_mb))


@pytest.mark.parametrize(
    ("by", "task_count", "has_request"),
    [("prior", 2, True), ("prior", 1, False), ("both", 2, False), ("scouts", 2, False)],
)
def test_a_new_task_requests_the_prior_of_its_kind(by: Requests, task_count: int, has_request: bool) -> None:
    used = [used_memory(np.full(5, 1000.0), np.empty(0))] * task_count
    record = record_of_new(by, [], used, used, 4000.0)
    assert record.request_mb == (pytest.approx(1.1 * 1000.0 * math.sqrt(2.0)) if has_request else None)
    # from the fifth on, its own jobs decide
    for _ in range(5):
        assert record.used is None
        record.ended(by, 1000.0, killed=False)
    assert record.request_mb == 1100.0
    assert record.used == used_memory(np.full(5, 1000.0), np.empty(0))


def test_needs_of_the_kind_take_precedence_over_the_prior_as_in_the_agent() -> None:
    used = [used_memory(np.full(5, 1000.0), np.empty(0))] * 2
    assert record_of_new("prior", NEEDS, used, used, 4000.0).request_mb == pytest.approx(5500.0)


@pytest.mark.parametrize(("used_mb", "bounded_mb"), [(1.0, 1000.0), (1e7, 16000.0)])
def test_the_prior_is_bounded_by_the_request_as_in_the_agent(used_mb: float, bounded_mb: float) -> None:
    used = [used_memory(np.full(5, used_mb), np.empty(0))] * 2
    assert record_of_new("prior", [], used, used, 4000.0).request_mb == pytest.approx(1.1 * bounded_mb)


@pytest.mark.parametrize(
    ("by", "after_five", "after_forty"),
    [("scouts", 1100.0, 1100.0), ("learned", None, 1.1 * 1000.0), ("both", 1100.0, 1.1 * 1000.0)],
)
def test_the_quantile_comes_after_the_scouts(by: Requests, after_five: float | None, after_forty: float) -> None:
    record = MemoryRecord()
    needs = [record.ended(by, 1000.0, killed=False) for _ in range(5)]
    assert record.request_mb == after_five and needs == [None] * 5
    needs = [record.ended(by, 1000.0, killed=False) for _ in range(35)]
    assert record.request_mb == pytest.approx(after_forty)
    assert [need for need in needs if need is not None] == ([] if by == "scouts" else [1000.0])
