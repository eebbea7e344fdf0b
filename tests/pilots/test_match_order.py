from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from broker.pilots.model.match_order import draw, draw_in_tiers, seed_of


def test_draws_are_in_proportion_to_the_weights() -> None:
    generator = np.random.default_rng(3)
    weights = np.array([1.0, 3.0, 0.001])
    first = Counter(int(draw(weights, generator)[0]) for _ in range(4000))
    assert first[1] / 4000 == pytest.approx(0.75, abs=0.03)
    assert first[2] < 20
    assert sorted(draw(weights, generator).tolist()) == [0, 1, 2]


def firsts(tiers: list[int], types: list[int], type_weights: list[float], weights: list[float]) -> Counter[int]:
    generator = np.random.default_rng(3)
    columns = np.array(tiers), np.array(types), np.array(type_weights), np.array(weights)
    return Counter(int(draw_in_tiers(*columns, generator)[0]) for _ in range(4000))


def test_a_later_tier_comes_after_all_of_an_earlier_one() -> None:
    generator = np.random.default_rng(3)
    tiers = np.array([2, 1, 1000, 1, 2])
    for _ in range(100):
        order = draw_in_tiers(tiers, np.array([1, 2, 0, 3, 1]), np.ones(5), np.array([9.0, 1, 1e9, 1, 1]), generator)
        assert tiers[order].tolist() == [1, 1, 2, 2, 1000]
    assert draw_in_tiers(np.zeros(0), np.zeros(0, int), np.zeros(0), np.zeros(0), generator).tolist() == []


def test_a_type_is_drawn_by_its_own_weight_not_by_those_of_its_task_queues() -> None:
    counts = firsts([1, 1, 1, 1], [1, 1, 1, 2], [3, 3, 3, 1], [1, 1, 2, 1000])
    assert counts[3] / 4000 == pytest.approx(0.25, abs=0.03)
    # within the type, a task queue is drawn by its own weight
    assert counts[2] / (4000 - counts[3]) == pytest.approx(0.5, abs=0.03)


def test_types_without_a_tier_are_drawn_together() -> None:
    counts = firsts([1000] * 3, [0, 0, 0], [1, 1, 1], [1, 1, 2])
    assert counts[2] / 4000 == pytest.approx(0.5, abs=0.03)


def test_each_request_has_its_own_seed() -> None:
    assert seed_of("p", 1) == seed_of("p", 1)
    assert len({seed_of("p", 1), seed_of("p", 2), seed_of("q", 1), seed_of("1:p", 1), seed_of("p", 11)}) == 5
