"""Confidence intervals of shares, and agreement by chance alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from broker.alongside.model.agreement import Draws, chance_alone, interval, wilson, witnesses


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [
        # Wilson's interval at 95 %, computed by hand: centre (p + z2/2n)/(1 + z2/n)
        (0.9, 10, 0.5958, 0.9821),
        (1.0, 9, 0.7009, 1.0),
        (0.0, 9, 0.0, 0.2991),
        (0.5, 1e9, 0.5, 0.5),
    ],
)
def test_wilson(share: float, count: float, low: float, high: float) -> None:
    assert wilson(share, count) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


@pytest.mark.parametrize(
    ("sizes", "count"), [([], 0), ([0], 0), ([5], 1), ([3, 3, 3], 3), ([100, 1], 1.02), ([1] * 50, 50)]
)
def test_tasks_of_unequal_size_count_as_fewer_witnesses(sizes: list[float], count: float) -> None:
    assert witnesses(sizes) == pytest.approx(count, abs=0.001)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.floats(0, 1), st.sampled_from([0.5, 0.95, 0.999]))
def test_the_interval_contains_its_share_and_narrows_with_more_tasks(
    sizes: list[float], share: float, confidence: float
) -> None:
    bounds = interval(share * sum(sizes), sizes, confidence)
    assert bounds is not None
    low, high = bounds
    assert 0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1
    narrower = interval(share * 3 * sum(sizes), 3 * sizes, confidence)
    assert narrower is not None and narrower[1] - narrower[0] <= high - low + 1e-12
    assert interval(0.0, []) is None


def test_more_differences_never_raise_the_lower_bound() -> None:
    sizes = [10.0] * 40
    intervals = [interval(400 - differing, sizes) for differing in range(400)]
    lows = [bounds[0] for bounds in intervals if bounds is not None]
    assert len(lows) == 400 and all(low > next_low or low == 0 for low, next_low in pairwise(lows))


def test_a_single_queue_always_agrees() -> None:
    chance = chance_alone([Draws(10, {"A": 1.0})], 1)
    assert chance is not None
    assert (chance.alone, chance.within, chance.drawn_twice, chance.by_place) == (1, (1, 1), 1, {"A": 0})
    assert chance_alone([], 1) is None and chance_alone([Draws(5, {})], 1) is None


def test_one_bunch_between_two_queues_agrees_by_half() -> None:
    """Up to 25 jobs are drawn together: each queue expects half of them, and two draws agree half of the time."""
    chance = chance_alone([Draws(25, {"A": 0.5, "B": 0.5})], 1, 4000)
    assert chance is not None
    assert chance.alone == 0.5 and chance.drawn_twice == pytest.approx(0.5, abs=0.03)
    assert chance.by_place == {"A": 12.5, "B": 12.5}
    two_bunches = chance_alone([Draws(26, {"A": 0.5, "B": 0.5})], 1, 4000)
    assert two_bunches is not None and {round(26 * share, 6) for share in two_bunches.within} == {13, 14}


def test_many_jobs_leave_little_to_chance() -> None:
    few = chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4, 1)
    many = chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4000, 1)
    assert few is not None and many is not None
    assert few.alone < 0.93 < 0.99 < many.alone and few.drawn_twice < few.alone
    assert chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4, 1) == few
