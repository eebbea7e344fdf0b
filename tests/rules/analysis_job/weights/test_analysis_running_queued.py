"""(running + 1) / (waiting + 1), jobs of the share."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.analysis_job.weights.analysis_running_queued import AnalysisRunningQueued
from tests.rules.builders import make_load


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({}, 1.0),
        ({"running": 9.0}, 10.0),
        *(({"running": 9.0, state: 4.0}, 2.0) for state in ("defined", "assigned", "activated", "starting")),
        ({"running": 9.0, "defined": 1.0, "assigned": 1.0, "activated": 1.0, "starting": 1.0}, 2.0),
        ({"activated": 99.0}, 0.01),
        # neither local data nor many assigned jobs matter
        ({"running": 9.0, "assigned": 4.0, "all_local": True}, 2.0),
    ],
    ids=str,
)
def test_factor(load: dict[str, Any], expected: float) -> None:
    assert AnalysisRunningQueued().factor(make_load(**load)).item() == pytest.approx(expected, rel=1e-12)
