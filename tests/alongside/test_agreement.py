"""Intervals of shares, and what drawing alone gives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from broker.alongside.model.agreement import Draws, chance_alone, interval, wilson, witnesses


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [
        # Wilson's interval at 95 %, worked out by hand: centre (p + z2/2n)/(1 + z2/n)
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
def test_tasks_of_very_different_size_count_for_fewer(sizes: list[float], count: float) -> None:
    assert witnesses(sizes) == pytest.approx(count, abs=0.001)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.floats(0, 1), st.sampled_from([0.5, 0.95, 0.999]))
def test_the_interval_holds_its_share_and_narrows_with_tasks(
    sizes: list[float], share: float, confidence: float
) -> None:
    found = interval(share * sum(sizes), sizes, confidence)
    assert found is not None
    low, high = found
    assert 0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1
    more = interval(share * 3 * sum(sizes), 3 * sizes, confidence)
    assert more is not None and more[1] - more[0] <= high - low + 1e-12
    assert interval(0.0, []) is None


def test_more_differences_never_raise_the_lower_end() -> None:
    sizes = [10.0] * 40
    found = [interval(400 - differing, sizes) for differing in range(400)]
    lows = [one[0] for one in found if one is not None]
    assert len(lows) == 400 and all(one > other or one == 0 for one, other in pairwise(lows))


def test_one_place_is_always_the_same() -> None:
    found = chance_alone([Draws(10, {"A": 1.0})], 1)
    assert found is not None
    assert (found.alone, found.within, found.drawn_twice, found.by_place) == (1, (1, 1), 1, {"A": 0})
    assert chance_alone([], 1) is None and chance_alone([Draws(5, {})], 1) is None


def test_one_bunch_between_two_places_agrees_by_half() -> None:
    """Up to 25 jobs go to one place together: expected at both by half, and two draws agree every second time."""
    found = chance_alone([Draws(25, {"A": 0.5, "B": 0.5})], 1, 4000)
    assert found is not None
    assert found.alone == 0.5 and found.drawn_twice == pytest.approx(0.5, abs=0.03)
    assert found.by_place == {"A": 12.5, "B": 12.5}
    two = chance_alone([Draws(26, {"A": 0.5, "B": 0.5})], 1, 4000)
    assert two is not None and {round(26 * one, 6) for one in two.within} == {13, 14}


def test_many_jobs_leave_little_to_chance() -> None:
    few = chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4, 1)
    many = chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4000, 1)
    assert few is not None and many is not None
    assert few.alone < 0.93 < 0.99 < many.alone and few.drawn_twice < few.alone
    assert chance_alone([Draws(25, {"A": 0.3, "B": 0.7})] * 4, 1) == few
