"""Scouts need a queue with a maximum walltime of at least a day."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.scout_walltime import ScoutWalltime
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(scout=True, maxtime_s=86_399.0),
    kept(scout=True, maxtime_s=86_400.0),
    kept(scout=True, maxtime_s=0.0),
    kept(scout=True, maxtime_s=None),
    kept(maxtime_s=1.0),
    kept(scout=True, maxtime_s=1.0, one_preassigned=True),
    rejected(scout=True, maxtime_s=1.0, listed=True),
    rejected(scout=True, maxtime_s=1.0, one_preassigned=True, merging=True),
    rejected(scout=True, maxtime_s=1.0, one_preassigned=True, walltime_undefined=True),
    kept(maxtime_s=1.0, walltime_undefined=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_scout_walltime(case: Case) -> None:
    check(ScoutWalltime(), case)
