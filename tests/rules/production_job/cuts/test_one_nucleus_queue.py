"""Tasks that ask for a single queue keep the one with most running jobs, and those without any job."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.rules.contract import LoadDetails
from broker.rules.production_job.cuts.one_nucleus_queue import OneNucleusQueue
from tests.rules.builders import make_load

NONE = np.zeros(3)


def surviving_queues(running: list[float], asks: bool = True, alive: Any = None, bootstrap: Any = None) -> list[bool]:
    """Return which of three queues stay."""
    flags = np.zeros(3, dtype=np.bool_)
    details = LoadDetails(NONE, np.array(running), flags, np.full(3, asks), NONE, NONE, NONE, flags)
    jobs = [0.0 if empty else 1.0 for empty in bootstrap or [False] * 3]
    load = dataclasses.replace(make_load(3, running=jobs, bootstrap_allowed=True), details=details)
    remaining = np.array(alive or [True] * 3)
    keep: list[bool] = OneNucleusQueue().keep_among(remaining, load, np.ones(3)).tolist()
    return keep


@pytest.mark.parametrize(
    ("running", "options", "expected"),
    [
        ([1.0, 9.0, 3.0], {}, [False, True, False]),
        # among equal queues the first by name, even if none runs jobs
        ([9.0, 9.0, 3.0], {}, [True, False, False]),
        ([0.0, 0.0, 0.0], {}, [True, False, False]),
        # only remaining queues count
        ([1.0, 9.0, 3.0], {"alive": [True, False, True]}, [False, False, True]),
        # a queue without any job stays if it comes after the chosen one, or if no queue has jobs
        ([5.0, 9.0, 3.0], {"bootstrap": [False, False, True]}, [False, True, True]),
        ([5.0, 9.0, 3.0], {"bootstrap": [True, False, False]}, [False, True, False]),
        ([5.0, 9.0, 3.0], {"bootstrap": [True, True, True]}, [True, True, True]),
        ([1.0, 9.0, 3.0], {"asks": False}, [True, True, True]),
    ],
)
def test_one_queue(running: list[float], options: dict[str, Any], expected: list[bool]) -> None:
    assert surviving_queues(running, **options) == expected


def test_nothing_is_cut_without_the_details() -> None:
    assert OneNucleusQueue().keep_among(np.ones(2, dtype=np.bool_), make_load(2), np.ones(2)).tolist() == [True, True]
