"""Single-core jobs go to single-core queues and multi-core jobs to multi-core ones; 0 cores fit both unless urgent."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.core_count import CoreCount
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(corecount=1.0, cores=0.0),
    kept(corecount=1.0, cores=None),
    kept(corecount=1.0, cores=1.0),
    rejected(corecount=1.0, cores=2.0),
    rejected(corecount=1.0, cores=8.0),
    kept(corecount=None, cores=0.0),
    kept(corecount=None, cores=None),
    kept(corecount=None, cores=1.0),
    rejected(corecount=None, cores=2.0),
    rejected(corecount=None, cores=8.0),
    rejected(corecount=8.0, cores=0.0),
    rejected(corecount=8.0, cores=None),
    rejected(corecount=8.0, cores=1.0),
    kept(corecount=8.0, cores=2.0),
    kept(corecount=8.0, cores=8.0),
    rejected(corecount=2.0, cores=0.0),
    rejected(corecount=2.0, cores=None),
    rejected(corecount=2.0, cores=1.0),
    kept(corecount=2.0, cores=2.0),
    kept(corecount=2.0, cores=8.0),
    kept(corecount=0.0, cores=0.0),
    kept(corecount=0.0, cores=None),
    kept(corecount=0.0, cores=1.0),
    kept(corecount=0.0, cores=2.0),
    kept(corecount=0.0, cores=8.0),
    kept(corecount=0.0, cores=0.0, currentpriority=899.0),
    kept(corecount=0.0, cores=None, currentpriority=899.0),
    kept(corecount=0.0, cores=1.0, currentpriority=899.0),
    kept(corecount=0.0, cores=2.0, currentpriority=899.0),
    kept(corecount=0.0, cores=8.0, currentpriority=899.0),
    rejected(corecount=0.0, cores=0.0, currentpriority=900.0),
    rejected(corecount=0.0, cores=None, currentpriority=900.0),
    rejected(corecount=0.0, cores=1.0, currentpriority=900.0),
    kept(corecount=0.0, cores=2.0, currentpriority=900.0),
    kept(corecount=0.0, cores=8.0, currentpriority=900.0),
    rejected(corecount=0.0, cores=0.0, scout=True),
    rejected(corecount=0.0, cores=None, scout=True),
    rejected(corecount=0.0, cores=1.0, scout=True),
    kept(corecount=0.0, cores=2.0, scout=True),
    kept(corecount=0.0, cores=8.0, scout=True),
    kept(corecount=8.0, cores=0.0, merging=True, mergecorecount=1.0),
    kept(corecount=8.0, cores=None, merging=True, mergecorecount=1.0),
    kept(corecount=8.0, cores=1.0, merging=True, mergecorecount=1.0),
    rejected(corecount=8.0, cores=2.0, merging=True, mergecorecount=1.0),
    rejected(corecount=8.0, cores=8.0, merging=True, mergecorecount=1.0),
    rejected(corecount=1.0, cores=0.0, merging=True, mergecorecount=8.0),
    rejected(corecount=1.0, cores=None, merging=True, mergecorecount=8.0),
    rejected(corecount=1.0, cores=1.0, merging=True, mergecorecount=8.0),
    kept(corecount=1.0, cores=2.0, merging=True, mergecorecount=8.0),
    kept(corecount=1.0, cores=8.0, merging=True, mergecorecount=8.0),
    rejected(corecount=8.0, cores=0.0, merging=True, mergecorecount=None),
    rejected(corecount=8.0, cores=None, merging=True, mergecorecount=None),
    rejected(corecount=8.0, cores=1.0, merging=True, mergecorecount=None),
    kept(corecount=8.0, cores=2.0, merging=True, mergecorecount=None),
    kept(corecount=8.0, cores=8.0, merging=True, mergecorecount=None),
    kept(corecount=1.0, cores=0.0, mergecorecount=8.0),
    kept(corecount=1.0, cores=None, mergecorecount=8.0),
    kept(corecount=1.0, cores=1.0, mergecorecount=8.0),
    rejected(corecount=1.0, cores=2.0, mergecorecount=8.0),
    rejected(corecount=1.0, cores=8.0, mergecorecount=8.0),
    kept(corecount=1.0, cores=8.0, one_preassigned=True),
    rejected(corecount=1.0, cores=8.0, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_core_count(case: Case) -> None:
    check(CoreCount(), case)
