"""Queues that the task has used stay, others fill up to five."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.rules.generic_job.cuts.five_queues import FiveQueues
from tests.rules.builders import make_load


def kept(weights: list[float], used: tuple[int, ...] = (), gone: tuple[int, ...] = ()) -> list[int]:
    """Positions of the queues that stay."""
    count = len(weights)
    load = dataclasses.replace(make_load(count), preferred=np.isin(np.arange(count), used))
    alive = ~np.isin(np.arange(count), gone)
    return np.flatnonzero(FiveQueues().keep_among(alive, load, np.array(weights))).tolist()


@pytest.mark.parametrize(
    ("weights", "used", "gone", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], (), (), [0, 1, 2, 3]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (), (), [1, 2, 3, 4, 5]),
        # of equal ones the first by name
        ([1.0] * 7, (), (), [0, 1, 2, 3, 4]),
        # a used one stays and counts
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (0,), (), [0, 2, 3, 4, 5]),
        # used ones are as many as they are
        ([1.0] * 8, (1, 2, 3, 4, 5, 7), (), [1, 2, 3, 4, 5, 7]),
        # one that is not left neither stays nor counts
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], (0,), (0, 6), [1, 2, 3, 4, 5]),
        # a weight of 0 is one
        ([0.0, 0.0], (), (), [0, 1]),
    ],
)
def test_five_queues(weights: list[float], used: tuple[int, ...], gone: tuple[int, ...], expected: list[int]) -> None:
    assert kept(weights, used, gone) == expected


def test_many_chunks_are_cut_as_one() -> None:
    weights = np.array([[1.0] * 6, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    load = dataclasses.replace(make_load(6), preferred=np.array([[False] * 6, [True] + [False] * 5]))
    kept_of_both = FiveQueues().keep_among(np.ones((2, 6), dtype=np.bool_), load, weights)
    assert [np.flatnonzero(row).tolist() for row in kept_of_both] == [[0, 1, 2, 3, 4], [0, 2, 3, 4, 5]]


def test_without_what_tasks_have_used_the_heaviest_stay() -> None:
    assert FiveQueues().keep(make_load(6), np.arange(6.0)).tolist() == [False, True, True, True, True, True]
