"""Quantiles of waits that have not all ended, and the loss by which quantiles are judged."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.quantiles import censored_quantiles, effective_number
from broker.forecasts.model.judging import pinball

LEVELS = np.array([0.1, 0.5, 0.9])


def test_without_open_ones_they_are_those_of_the_values() -> None:
    values = np.arange(1.0, 11.0)
    found = censored_quantiles(values[::-1], np.ones(10, dtype=np.bool_), np.ones(10), LEVELS)
    assert found.tolist() == [1.0, 5.0, 9.0]


def test_open_ones_count_as_longer_than_they_are() -> None:
    waited = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 4.0])
    known = np.array([True, True, True, False, False, False])
    assert censored_quantiles(waited, known, np.ones(6), LEVELS).tolist() == [1.0, 3.0, np.inf]
    assert censored_quantiles(waited[:3], known[:3], np.ones(3), LEVELS).tolist() == [1.0, 2.0, 3.0]


def test_it_finds_the_quantiles_of_exponential_waits_of_which_half_are_cut_off() -> None:
    random = np.random.default_rng(1)
    whole, cut = random.exponential(1.0, 20_000), random.exponential(1.0, 20_000)
    found = censored_quantiles(np.minimum(whole, cut), whole <= cut, np.ones(20_000), LEVELS)
    assert found == pytest.approx(-np.log1p(-LEVELS), rel=0.05)


def test_weights_count_as_so_many_values() -> None:
    found = censored_quantiles(np.array([1.0, 9.0]), np.ones(2, dtype=np.bool_), np.array([1.0, 9.0]), LEVELS)
    assert found.tolist() == [1.0, 9.0, 9.0]


def test_nothing_is_known_of_no_values() -> None:
    empty = np.array([])
    assert np.isnan(censored_quantiles(empty, empty.astype(np.bool_), empty, LEVELS)).all()


def test_equal_weights_are_worth_as_many_as_there_are() -> None:
    assert effective_number(np.full(7, 0.3)) == pytest.approx(7.0)
    assert effective_number(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_number(np.array([])) == 0.0


def test_the_loss_is_least_at_the_quantile() -> None:
    seen = np.arange(1.0, 101.0)
    losses = [float(pinball(seen, np.full(100, at), 0.9).mean()) for at in (50.0, 90.5, 99.0)]
    assert losses[1] == min(losses)
    assert pinball(np.array([3.0, 1.0]), np.array([1.0, 3.0]), 0.9).tolist() == pytest.approx([1.8, 0.2])
