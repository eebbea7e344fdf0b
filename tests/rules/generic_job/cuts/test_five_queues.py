"""Queues that the task has used stay; others fill up to five."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.rules.generic_job.cuts.five_queues import FiveQueues
from tests.rules.builders import make_load


def surviving_positions(weights: list[float], used: tuple[int, ...] = (), removed: tuple[int, ...] = ()) -> list[int]:
    """Return the positions of the surviving queues."""
    count = len(weights)
    load = dataclasses.replace(make_load(count), preferred=np.isin(np.arange(count), used))
    alive = ~np.isin(np.arange(count), removed)
    return np.flatnonzero(FiveQueues().keep_among(alive, load, np.array(weights))).tolist()


@pytest.mark.parametrize(
    ("weights", "used", "removed", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], (), (), [0, 1, 2, 3]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (), (), [1, 2, 3, 4, 5]),
        # among equal weights the first by name
        ([1.0] * 7, (), (), [0, 1, 2, 3, 4]),
        # a used queue stays and counts
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (0,), (), [0, 2, 3, 4, 5]),
        # all used queues stay
        ([1.0] * 8, (1, 2, 3, 4, 5, 7), (), [1, 2, 3, 4, 5, 7]),
        # a queue rejected before neither stays nor counts
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], (0,), (0, 6), [1, 2, 3, 4, 5]),
        # a weight of 0 is a valid weight
        ([0.0, 0.0], (), (), [0, 1]),
    ],
)
def test_five_queues(
    weights: list[float], used: tuple[int, ...], removed: tuple[int, ...], expected: list[int]
) -> None:
    assert surviving_positions(weights, used, removed) == expected


def test_each_of_many_chunks_is_cut_like_a_single_one() -> None:
    weights = np.array([[1.0] * 6, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    load = dataclasses.replace(make_load(6), preferred=np.array([[False] * 6, [True] + [False] * 5]))
    keep = FiveQueues().keep_among(np.ones((2, 6), dtype=np.bool_), load, weights)
    assert [np.flatnonzero(row).tolist() for row in keep] == [[0, 1, 2, 3, 4], [0, 2, 3, 4, 5]]


def test_without_used_queues_the_heaviest_stay() -> None:
    assert FiveQueues().keep(make_load(6), np.arange(6.0)).tolist() == [False, True, True, True, True, True]
