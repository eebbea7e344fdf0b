"""Estimates for a queue: its cores, between the running and the maximum ones; its failure rate; its efficiency."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.domain.queue_capacity import MOST_RATIO, QueueSums

COUNTS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("max_cores", "hours", "running", "prior_h", "expected"),
    [
        (100, 6, 20, 6, 60), (100, 0, 20, 6, 20), (100, 0, 20, 0, 20), (100, 1, 20, 0, 100), (10, 500, 20, 6, 20),
        (100, 18, 0, 6, 75), (0, 0, 0, 6, 0),
    ],
)  # fmt: skip
def test_cores(max_cores: float, hours: int, running: float, prior_h: float, expected: float) -> None:
    assert QueueSums(most_cores=max_cores, hours=hours).cores(running, prior_h) == expected


@given(max_cores=st.floats(0, 1e6), hours=COUNTS, running=st.floats(0, 1e6), prior_h=st.floats(0, 1000))
def test_estimated_cores_lie_between_running_and_maximum_cores(
    max_cores: float, hours: int, running: float, prior_h: float
) -> None:
    cores = QueueSums(most_cores=max_cores, hours=hours).cores(running, prior_h)
    assert running <= cores <= max(max_cores, running) * (1 + 1e-12)
    assert QueueSums(most_cores=max_cores, hours=hours + 1).cores(running, prior_h) >= cores * (1 - 1e-12)


@pytest.mark.parametrize(("finished", "failed", "expected"), [(0, 0, 0.075), (20, 0, 0.0375), (0, 20, 0.5375)])
def test_the_failure_rate_is_shrunk_towards_the_usual_rate(finished: int, failed: int, expected: float) -> None:
    assert QueueSums(finished=finished, failed=failed).failure() == pytest.approx(expected)


@given(finished=COUNTS, failed=COUNTS)
def test_another_failure_raises_the_failure_rate(finished: int, failed: int) -> None:
    rate = QueueSums(finished=finished, failed=failed).failure()
    assert 0.0 < rate < 1.0 and QueueSums(finished=finished, failed=failed + 1).failure() > rate


@pytest.mark.parametrize(
    ("jobs", "ln_sum", "expected"), [(0, 0.0, 1.0), (20, 40.0, 0.368), (10**6, 5e6, 0.2), (10**6, -5e6, 5.0)]
)
def test_efficiency_is_expected_over_actual_walltime(jobs: int, ln_sum: float, expected: float) -> None:
    efficiency = QueueSums(ratio_jobs=jobs, ratio_ln_sum=ln_sum).efficiency()
    assert efficiency == pytest.approx(expected, abs=1e-3) and efficiency * (1 + 1e-9) >= 1 / MOST_RATIO
