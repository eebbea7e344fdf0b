"""Scouts need a queue whose maximum walltime is at least a day, in seconds."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.scout_day import ScoutDay
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

SCOUT = {"scout": True}
CASES = [
    rejected(**SCOUT, maxtime_s=86_399.0),
    kept(**SCOUT, maxtime_s=86_400.0),
    kept(**SCOUT, maxtime_s=0.0),
    kept(**SCOUT, maxtime_s=None),
    kept(maxtime_s=1.0),
    # a single named queue is checked only for tasks without an estimate
    kept(**SCOUT, site_named=True, maxtime_s=1.0),
    rejected(**SCOUT, site_named=True, merging=True, maxtime_s=1.0),
    rejected(**SCOUT, site_named=True, walltime_undefined=True, maxtime_s=1.0),
    rejected(**SCOUT, named=True, maxtime_s=1.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_scout_day(case: Case) -> None:
    check(ScoutDay(), case)
