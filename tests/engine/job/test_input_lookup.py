"""Files on disk and on any storage, where the first endpoint that has a file counts."""

from __future__ import annotations

import numpy as np
import pytest

from broker.engine.job.input_lookup import of_first_endpoint


@pytest.mark.parametrize(
    ("values", "tape", "whole", "disk", "anywhere"),
    [
        ([5, 8], [False, False], [False, False], 8, 8),
        # a copy of fewer or equally many files adds nothing
        ([8, 5], [False, False], [False, False], 8, 8),
        ([8, 8], [False, False], [False, False], 8, 8),
        # files on a preceding tape do not count on disk
        ([8, 5], [True, False], [False, False], 0, 8),
        ([5, 8], [True, False], [False, False], 3, 8),
        ([5, 8], [False, True], [False, False], 5, 8),
        # a copy known to be whole counts whatever precedes it
        ([8, 8], [True, False], [False, True], 8, 8),
    ],
)
def test_two_copies(values: list[float], tape: list[bool], whole: list[bool], disk: float, anywhere: float) -> None:
    amounts = of_first_endpoint(
        np.array([1, 1]), np.array([0, 1]), np.array(values, dtype=float), np.array(tape), np.array(whole)
    )
    assert [amount.tolist() for amount in amounts] == [[disk], [anywhere]]


def test_groups_are_independent() -> None:
    no_flags = np.zeros(3, dtype=np.bool_)
    disk, anywhere = of_first_endpoint(
        np.array([4, 2, 4]), np.array([1, 0, 0]), np.array([9.0, 3.0, 2.0]), no_flags, no_flags
    )
    assert (disk.tolist(), anywhere.tolist()) == ([3, 9], [3, 9])
