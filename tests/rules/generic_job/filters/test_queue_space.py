"""The space of a queue according to CRIC, in GB."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.queue_space import QueueSpace
from tests.rules.builders import Case, check, kept, rejected

POOLS = {"space_gb": [None, 0, 199, 199.5, 200, 5000]}
CASES = [
    kept(space_gb=200),
    rejected(space_gb=199.9),
    rejected(space_gb=1),
    kept(space_gb=0),
    kept(space_gb=None),
    rejected(space_gb=100, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_queue_space(case: Case) -> None:
    check(QueueSpace(), case)
