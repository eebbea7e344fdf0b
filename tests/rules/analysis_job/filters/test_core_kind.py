"""A queue has one core or several, as the task requires; 0 takes both."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.core_kind import CoreKind
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(corecount=1.0, cores=1.0),
    kept(corecount=1.0, cores=0.0),
    kept(corecount=1.0, cores=None),
    rejected(corecount=1.0, cores=2.0),
    kept(corecount=None, cores=1.0),
    kept(corecount=None, cores=None),
    rejected(corecount=None, cores=8.0),
    kept(corecount=2.0, cores=2.0),
    # the number of cores is not compared
    kept(corecount=2.0, cores=64.0),
    kept(corecount=64.0, cores=2.0),
    rejected(corecount=8.0, cores=1.0),
    rejected(corecount=8.0, cores=0.0),
    rejected(corecount=8.0, cores=None),
    *(kept(corecount=0.0, cores=cores) for cores in (None, 0.0, 1.0, 8.0)),
    # merging and high priority use the cores of the task
    kept(corecount=8.0, mergecorecount=1.0, merging=True, cores=8.0),
    rejected(corecount=8.0, mergecorecount=1.0, merging=True, cores=1.0),
    kept(corecount=0.0, currentpriority=950.0, cores=1.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_core_kind(case: Case) -> None:
    check(CoreKind(), case)
