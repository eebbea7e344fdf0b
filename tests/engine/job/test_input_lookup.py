"""What is on disk and anywhere, where the first endpoint that answers counts."""

from __future__ import annotations

import numpy as np
import pytest

from broker.engine.job.input_lookup import of_first_endpoint


@pytest.mark.parametrize(
    ("values", "tape", "whole", "disk", "anywhere"),
    [
        ([5, 8], [False, False], [False, False], 8, 8),
        # nothing is added by a copy of less, or of as much
        ([8, 5], [False, False], [False, False], 8, 8),
        ([8, 8], [False, False], [False, False], 8, 8),
        # what a tape in front has is not taken from disk
        ([8, 5], [True, False], [False, False], 0, 8),
        ([5, 8], [True, False], [False, False], 3, 8),
        ([5, 8], [False, True], [False, False], 5, 8),
        # a copy that is known to be whole counts whatever stands in front of it
        ([8, 8], [True, False], [False, True], 8, 8),
    ],
)
def test_two_copies(values: list[float], tape: list[bool], whole: list[bool], disk: float, anywhere: float) -> None:
    found = of_first_endpoint(
        np.array([1, 1]), np.array([0, 1]), np.array(values, dtype=float), np.array(tape), np.array(whole)
    )
    assert [one.tolist() for one in found] == [[disk], [anywhere]]


def test_groups_do_not_see_each_other() -> None:
    none = np.zeros(3, dtype=np.bool_)
    disk, anywhere = of_first_endpoint(np.array([4, 2, 4]), np.array([1, 0, 0]), np.array([9.0, 3.0, 2.0]), none, none)
    assert (disk.tolist(), anywhere.tolist()) == ([3, 9], [3, 9])
