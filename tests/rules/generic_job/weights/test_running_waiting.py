"""The weight of a queue, by jobs of the VO."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.weights.running_waiting import RunningWaiting
from tests.rules.builders import make_load


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({}, 1.0),
        ({"running": 9.0}, 10.0),
        ({"running": 9.0, "activated": 4.0}, 2.0),
        ({"running": 9.0, "activated": 3.0, "defined": 1.0}, 1.0),
        # neither assigned nor starting jobs count
        ({"running": 9.0, "assigned": 7.0, "starting": 7.0}, 10.0),
    ],
)
def test_running_waiting(jobs: dict[str, float], expected: float) -> None:
    assert RunningWaiting().factor(make_load(1, **jobs)).tolist() == [expected]
