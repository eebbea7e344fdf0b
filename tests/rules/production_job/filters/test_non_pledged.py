"""While work is short, opportunistic queues get none."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.non_pledged import NonPledged
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(pledgedcpu=-1.0),
    rejected(pledgedcpu=-1.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=0.0, WORK_SHORTAGE=True),
    kept(pledgedcpu=None, WORK_SHORTAGE=True),
    kept(pledgedcpu=-1.0, WORK_SHORTAGE=True, one_preassigned=True),
    rejected(pledgedcpu=-1.0, WORK_SHORTAGE=True, listed=True),
    kept(pledgedcpu=-1.0, WORK_SHORTAGE=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_non_pledged(case: Case) -> None:
    check(NonPledged(), case)
