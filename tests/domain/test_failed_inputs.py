"""Queues that chunks avoid for their failed files: all at once as one by one, never the last, and each limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.failed_inputs import avoided_queues, least_files

SHARES = st.sampled_from([0.0, 0.1, 0.34, 0.5, 1.0])


def one_chunk(files: list[int], least: float, left: list[bool], most_share: float) -> list[bool]:
    """The same of one chunk, queue by queue."""
    failing = [at for at, count in enumerate(files) if left[at] and count >= least]
    most = max(1, math.floor(most_share * sum(left))) if most_share else 0
    worst = sorted(failing, key=lambda at: (-files[at], at))[:most]
    if len(worst) == sum(left):
        worst = []
    return [at in worst for at in range(len(files))]


@given(st.integers(0, 2**32 - 1), SHARES)
def test_all_at_once_is_one_by_one(seed: int, most_share: float) -> None:
    random = np.random.default_rng(seed)
    shape = (int(random.integers(0, 6)), int(random.integers(1, 7)))
    files, left = random.integers(0, 4, shape), random.random(shape) < 0.7
    least = random.choice([1.0, 1.5, 3.0], shape[0])
    found = avoided_queues(files.astype(np.float64), least, left, most_share)
    rows = zip(files.tolist(), least.tolist(), left.tolist(), strict=True)
    assert found.tolist() == [one_chunk(*row, most_share) for row in rows]
    assert not (found & ~left).any() and (left & ~found)[left.any(axis=1)].any(axis=1).all()


@pytest.mark.parametrize(
    ("files", "least", "left", "most_share", "avoided"),
    [
        ([3, 0, 0], 3.0, [1, 1, 1], 1.0, [1, 0, 0]),
        ([3, 0, 0], 3.1, [1, 1, 1], 1.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [1, 1, 1], 0.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [0, 1, 1], 1.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [1, 0, 0], 1.0, [0, 0, 0]),  # the last that is left
        ([3, 4, 0], 3.0, [1, 1, 1], 0.5, [0, 1, 0]),  # one of three, with most files
        ([3, 3, 0], 3.0, [1, 1, 1], 0.5, [1, 0, 0]),
        ([3, 4, 0], 3.0, [1, 1, 1], 0.67, [1, 1, 0]),
        ([3, 4, 5], 3.0, [1, 1, 1], 1.0, [0, 0, 0]),  # it failed everywhere
    ],
)
def test_limits(files: list[int], least: float, left: list[int], most_share: float, avoided: list[int]) -> None:
    found = avoided_queues(
        np.array([files], dtype=np.float64), np.array([least]), np.array([left], dtype=np.bool_), most_share
    )
    assert found.tolist() == [[bool(one) for one in avoided]]


@pytest.mark.parametrize(("share", "waiting", "least"), [(0.1, 1, 1.0), (0.1, 10, 1.0), (0.1, 11, 1.1), (0.0, 9, 1.0)])
def test_one_file_is_the_least(share: float, waiting: int, least: float) -> None:
    assert least_files(share, np.array([waiting])).tolist() == pytest.approx([least])
