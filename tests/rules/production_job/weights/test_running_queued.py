"""The ratio of running to waiting jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.rules.production_job.weights.running_queued import RunningQueued
from tests.rules.builders import make_load


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({}, 1 / 10),
        ({"running": 99.0}, 10.0),
        ({"running": 99.0, "activated": 10.0, "starting": 20.0, "defined": 10.0}, 100 / 50),
        ({"running": 99.0, "assigned": 10.0}, 100 / 20 / 2),  # (10 + 1) / 1 is cut at 2
        ({"running": 99.0, "assigned": 10.0, "activated": 10.0}, 100 / 30 / 1),
        ({"running": 99.0, "assigned": 14.0, "activated": 9.0}, 100 / 33 / 1.5),
        ({"running": 99.0, "assigned": 5.0, "activated": 20.0}, 100 / 35 / 1),
        ({"running": 99.0, "assigned": 10.0, "activated": 10.0, "all_local": True}, 100 / 20),
        ({"running": 99.0, "assigned": 1000.0, "all_local": True}, 10.0),
    ],
    ids=str,
)
def test_factor(load: dict[str, Any], expected: float) -> None:
    assert RunningQueued().factor(make_load(**load)).item() == pytest.approx(expected, rel=1e-12)


JOBS = st.floats(0, 1e6, allow_nan=False)


@given(jobs=st.lists(JOBS, min_size=5, max_size=5), local=st.booleans(), more=st.integers(1, 100))
def test_the_factor_is_positive_and_falls_with_waiting_jobs(jobs: list[float], local: bool, more: int) -> None:
    names = ("running", "defined", "assigned", "activated", "starting")
    counts: dict[str, Any] = dict(zip(names, jobs, strict=True))
    factor = RunningQueued().factor(make_load(**counts, all_local=local)).item()
    busier = RunningQueued().factor(make_load(**{**counts, "defined": jobs[1] + more}, all_local=local)).item()
    assert np.isfinite(factor) and 0 < busier < factor
