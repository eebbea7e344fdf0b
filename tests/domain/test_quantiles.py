from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.quantiles import learned_quantile, percentile


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=60), st.floats(0, 100))
def test_percentile_equals_pandas_formula(values: list[float], rank: float) -> None:
    ordered = sorted(values)
    position = (len(ordered) - 1) * rank / 100
    low, high = math.floor(position), math.ceil(position)
    expected = ordered[low] if low == high else ordered[low] * (high - position) + ordered[high] * (position - low)
    assert percentile(np.array(values), rank) == pytest.approx(expected)


def test_a_quantile_needs_enough_jobs() -> None:
    assert "40 are needed" in learned_quantile(np.ones(39), np.empty(0), 95.0, 20).reason
    assert learned_quantile(np.ones(40), np.empty(0), 95.0, 20).ask == 1.0
    assert "50 are needed" in learned_quantile(np.ones(40), np.empty(0), 95.0, 50).reason


def test_killed_jobs_are_lower_bounds() -> None:
    finished = np.arange(1.0, 101.0)
    uncensored = learned_quantile(finished, np.empty(0), 90.0, 20)
    assert (uncensored.ask, uncensored.p50) == (90.0, 50.0)
    assert uncensored.low <= 90.0 <= uncensored.high
    censored = learned_quantile(finished, np.full(20, 80.0), 90.0, 20)
    assert censored.ask > uncensored.ask
    unknown = learned_quantile(finished, np.full(60, 101.0), 90.0, 20)
    assert math.isnan(unknown.ask) and "killed" in unknown.reason


@given(st.lists(st.floats(1, 1e6), min_size=40, max_size=80))
def test_without_killed_jobs_the_quantile_is_the_order_statistic(values: list[float]) -> None:
    quantile = learned_quantile(np.array(values), np.empty(0), 95.0, 20)
    assert quantile.ask == sorted(values)[math.ceil(0.95 * len(values) - 1e-9) - 1]
