"""Cores of task and queue: 1 needs 1, several need at least as many, and a queue with 0 or -1 takes both."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.matching_cores import MatchingCores
from tests.rules.builders import Case, check, kept, rejected

POOLS = {"cores": [-1]}
CASES = [
    *(kept(corecount=1, cores=cores) for cores in (1, 0, -1, None)),
    *(rejected(corecount=1, cores=cores) for cores in (2, 8)),
    *(kept(corecount=8, cores=cores) for cores in (8, 16, 0, -1)),
    *(rejected(corecount=8, cores=cores) for cores in (7, 1, None)),
    *(kept(corecount=corecount, cores=8) for corecount in (0, None, -1)),
    kept(corecount=8, cores=1, one_preassigned=True),
    kept(corecount=1, cores=8, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_matching_cores(case: Case) -> None:
    check(MatchingCores(), case)
