"""Jobs of unknown length and merging need a queue that runs jobs for a day."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.min_walltime import MinWalltime
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(merging=True, maxtime_s=86_399.0),
    rejected(walltime_undefined=True, maxtime_s=86_399.0),
    kept(merging=True, maxtime_s=86_400.0),
    kept(walltime_undefined=True, maxtime_s=0.0),
    kept(walltime_undefined=True, maxtime_s=None),
    kept(maxtime_s=1.0),
    kept(merging=True, scout=True, maxtime_s=1.0),
    rejected(walltime_undefined=True, maxtime_s=1.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_min_walltime(case: Case) -> None:
    check(MinWalltime(), case)
