"""The queue with most running jobs for tasks that ask for one, and those without any job behind it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.rules.contract import LoadDetails
from broker.rules.production_job.cuts.one_nucleus_queue import OneNucleusQueue
from tests.rules.builders import make_load

NONE = np.zeros(3)


def kept(running: list[float], asks: bool = True, alive: Any = None, bootstrap: Any = None) -> list[bool]:
    """Of three queues, those that stay."""
    flags = np.zeros(3, dtype=np.bool_)
    details = LoadDetails(NONE, np.array(running), flags, np.full(3, asks), NONE, NONE, NONE, flags)
    jobs = [0.0 if one else 1.0 for one in bootstrap or [False] * 3]
    load = dataclasses.replace(make_load(3, running=jobs, bootstrap_allowed=True), details=details)
    left = np.array(alive or [True] * 3)
    found: list[bool] = OneNucleusQueue().keep_among(left, load, np.ones(3)).tolist()
    return found


@pytest.mark.parametrize(
    ("running", "more", "expected"),
    [
        ([1.0, 9.0, 3.0], {}, [False, True, False]),
        # of equal ones the first by name, also of those with none
        ([9.0, 9.0, 3.0], {}, [True, False, False]),
        ([0.0, 0.0, 0.0], {}, [True, False, False]),
        # only of those that are left
        ([1.0, 9.0, 3.0], {"alive": [True, False, True]}, [False, False, True]),
        # a queue without any job stays behind the one that is kept, and where there is none to measure
        ([5.0, 9.0, 3.0], {"bootstrap": [False, False, True]}, [False, True, True]),
        ([5.0, 9.0, 3.0], {"bootstrap": [True, False, False]}, [False, True, False]),
        ([5.0, 9.0, 3.0], {"bootstrap": [True, True, True]}, [True, True, True]),
        ([1.0, 9.0, 3.0], {"asks": False}, [True, True, True]),
    ],
)
def test_one_queue(running: list[float], more: dict[str, Any], expected: list[bool]) -> None:
    assert kept(running, **more) == expected


def test_nothing_is_cut_without_the_details() -> None:
    assert OneNucleusQueue().keep_among(np.ones(2, dtype=np.bool_), make_load(2), np.ones(2)).tolist() == [True, True]
