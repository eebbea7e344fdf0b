"""While work is short, a queue runs no more cores than pledged."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.over_pledged import OverPledged
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(pledgedcpu=100.0, running_cores=101.0),
    rejected(pledgedcpu=100.0, running_cores=101.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=100.0, running_cores=100.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=0.0, running_cores=101.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=None, running_cores=101.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=-1.0, running_cores=101.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=100.0, running_cores=101.0, WORK_SHORTAGE=True, one_preassigned=True),
    rejected(pledgedcpu=100.0, running_cores=101.0, WORK_SHORTAGE=True, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_over_pledged(case: Case) -> None:
    check(OverPledged(), case)
