"""The queue runs some job, or at most OVERLOAD_MIN_QUEUE jobs wait there."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.idle_overload import IdleOverload
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(activated=20.0),
    # each of the four states counts as waiting
    *(rejected(**{state: 21.0}) for state in ("defined", "assigned", "activated", "starting")),
    rejected(defined=6.0, assigned=5.0, activated=5.0, starting=5.0),
    kept(activated=21.0, running=1.0),
    kept(activated=21.0, OVERLOAD_MIN_QUEUE=21),
    kept(activated=21.0, merging=True),
    kept(activated=21.0, site_named=True),
    rejected(activated=21.0, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_idle_overload(case: Case) -> None:
    check(IdleOverload(), case)
