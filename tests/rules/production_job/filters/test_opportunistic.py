"""High priority and scouts keep off opportunistic queues."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.opportunistic import Opportunistic
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(pledgedcpu=-1.0, currentpriority=800.0),
    kept(pledgedcpu=-1.0, currentpriority=799.0),
    rejected(pledgedcpu=-1.0, scout=True),
    kept(pledgedcpu=0.0, scout=True),
    kept(pledgedcpu=None, scout=True),
    kept(pledgedcpu=100.0, scout=True),
    kept(pledgedcpu=-1.0, currentpriority=None),
    kept(pledgedcpu=-1.0, scout=True, one_preassigned=True),
    kept(pledgedcpu=-1.0, currentpriority=900.0, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_opportunistic(case: Case) -> None:
    check(Opportunistic(), case)
