"""Forecasts of a drifting simulated grid, made as the agent makes them and judged by the simulated outcomes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_forecasts import told_of
from benchmarks.forecast_world import TrackedSubject, watched
from broker.forecasts.model.forecasting import Settings
from broker.forecasts.model.judging import verdicts

DAYS = 5.0
SETTINGS = Settings(cases=60, horizon_s=43_200.0)


@pytest.fixture(scope="module")
def awaited() -> list[TrackedSubject]:
    return watched(1, DAYS, 500, "least_loaded")


@pytest.mark.slow
def test_most_starts_lie_in_the_interval_and_the_loss_is_below_that_of_the_usual_wait(
    awaited: list[TrackedSubject],
) -> None:
    whole = verdicts(told_of(awaited, SETTINGS, DAYS * 86_400.0))[0]
    assert whole.resolved >= 1000
    assert 0.7 <= whole.covered <= 0.92
    assert whole.loss_part < 0.8


@pytest.mark.slow
def test_later_cases_change_no_earlier_forecast(awaited: list[TrackedSubject]) -> None:
    half = [case for case in awaited if case.made_s <= 129_600.0]
    early = told_of(half, SETTINGS, DAYS * 86_400.0)
    whole = told_of(awaited, SETTINGS, DAYS * 86_400.0)
    assert len(early) > 100
    assert np.array_equal(early.quantiles_s, whole.quantiles_s[: len(early)], equal_nan=True)
