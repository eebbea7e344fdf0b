"""Quantiles of partly open waits, and the loss that judges quantiles."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.quantiles import censored_quantiles, effective_number
from broker.forecasts.model.judging import pinball

LEVELS = np.array([0.1, 0.5, 0.9])


def test_without_open_waits_the_quantiles_are_those_of_the_values() -> None:
    values = np.arange(1.0, 11.0)
    quantiles = censored_quantiles(values[::-1], np.ones(10, dtype=np.bool_), np.ones(10), LEVELS)
    assert quantiles.tolist() == [1.0, 5.0, 9.0]


def test_open_waits_count_as_longer_than_they_are() -> None:
    waited = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 4.0])
    known = np.array([True, True, True, False, False, False])
    assert censored_quantiles(waited, known, np.ones(6), LEVELS).tolist() == [1.0, 3.0, np.inf]
    assert censored_quantiles(waited[:3], known[:3], np.ones(3), LEVELS).tolist() == [1.0, 2.0, 3.0]


def test_the_quantiles_of_exponential_waits_half_of_which_are_censored() -> None:
    random = np.random.default_rng(1)
    whole, cut = random.exponential(1.0, 20_000), random.exponential(1.0, 20_000)
    quantiles = censored_quantiles(np.minimum(whole, cut), whole <= cut, np.ones(20_000), LEVELS)
    assert quantiles == pytest.approx(-np.log1p(-LEVELS), rel=0.05)


def test_a_weight_counts_as_that_many_values() -> None:
    quantiles = censored_quantiles(np.array([1.0, 9.0]), np.ones(2, dtype=np.bool_), np.array([1.0, 9.0]), LEVELS)
    assert quantiles.tolist() == [1.0, 9.0, 9.0]


def test_no_values_have_no_quantiles() -> None:
    empty = np.array([])
    assert np.isnan(censored_quantiles(empty, empty.astype(np.bool_), empty, LEVELS)).all()


def test_the_effective_number_of_equal_weights_is_their_count() -> None:
    assert effective_number(np.full(7, 0.3)) == pytest.approx(7.0)
    assert effective_number(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_number(np.array([])) == 0.0


def test_the_loss_is_least_at_the_quantile() -> None:
    waits = np.arange(1.0, 101.0)
    losses = [float(pinball(waits, np.full(100, at), 0.9).mean()) for at in (50.0, 90.5, 99.0)]
    assert losses[1] == min(losses)
    assert pinball(np.array([3.0, 1.0]), np.array([1.0, 3.0]), 0.9).tolist() == pytest.approx([1.8, 0.2])
