"""Queues that chunks avoid because of failed files: never the last queue, and both sides of each limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.domain.failed_inputs import avoided_queues, least_files

SHARES = st.sampled_from([0.0, 0.1, 0.34, 0.5, 1.0])


def one_chunk(files: list[int], least: float, remaining: list[bool], most_share: float) -> list[bool]:
    """The reference for one chunk, queue by queue."""
    failing = [index for index, count in enumerate(files) if remaining[index] and count >= least]
    max_count = max(1, math.floor(most_share * sum(remaining))) if most_share else 0
    worst = sorted(failing, key=lambda index: (-files[index], index))[:max_count]
    if len(worst) == sum(remaining):
        worst = []
    return [index in worst for index in range(len(files))]


@given(st.integers(0, 2**32 - 1), SHARES)
def test_many_chunks_together_equal_single_chunks(seed: int, most_share: float) -> None:
    random = np.random.default_rng(seed)
    shape = (int(random.integers(0, 6)), int(random.integers(1, 7)))
    files, remaining = random.integers(0, 4, shape), random.random(shape) < 0.7
    least = random.choice([1.0, 1.5, 3.0], shape[0])
    avoided = avoided_queues(files.astype(np.float64), least, remaining, most_share)
    rows = zip(files.tolist(), least.tolist(), remaining.tolist(), strict=True)
    assert avoided.tolist() == [one_chunk(*row, most_share) for row in rows]
    assert not (avoided & ~remaining).any() and (remaining & ~avoided)[remaining.any(axis=1)].any(axis=1).all()


@pytest.mark.parametrize(
    ("files", "least", "remaining", "most_share", "avoided"),
    [
        ([3, 0, 0], 3.0, [1, 1, 1], 1.0, [1, 0, 0]),
        ([3, 0, 0], 3.1, [1, 1, 1], 1.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [1, 1, 1], 0.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [0, 1, 1], 1.0, [0, 0, 0]),
        ([3, 0, 0], 3.0, [1, 0, 0], 1.0, [0, 0, 0]),  # the last remaining queue
        ([3, 4, 0], 3.0, [1, 1, 1], 0.5, [0, 1, 0]),  # one of three queues: the one with the most files
        ([3, 3, 0], 3.0, [1, 1, 1], 0.5, [1, 0, 0]),
        ([3, 4, 0], 3.0, [1, 1, 1], 0.67, [1, 1, 0]),
        ([3, 4, 5], 3.0, [1, 1, 1], 1.0, [0, 0, 0]),  # they failed everywhere
    ],
)
def test_limits(files: list[int], least: float, remaining: list[int], most_share: float, avoided: list[int]) -> None:
    result = avoided_queues(
        np.array([files], dtype=np.float64), np.array([least]), np.array([remaining], dtype=np.bool_), most_share
    )
    assert result.tolist() == [[bool(flag) for flag in avoided]]


@pytest.mark.parametrize(("share", "waiting", "least"), [(0.1, 1, 1.0), (0.1, 10, 1.0), (0.1, 11, 1.1), (0.0, 9, 1.0)])
def test_at_least_one_file_is_required(share: float, waiting: int, least: float) -> None:
    assert least_files(share, np.array([waiting])).tolist() == pytest.approx([least])
