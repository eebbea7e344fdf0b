"""Cores of a task and of a queue: one goes to one, several to at least as many, 0 and -1 of a queue take both."""

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
    *(kept(corecount=asked, cores=8) for asked in (0, None, -1)),
    kept(corecount=8, cores=1, one_preassigned=True),
    kept(corecount=1, cores=8, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_matching_cores(case: Case) -> None:
    check(MatchingCores(), case)
