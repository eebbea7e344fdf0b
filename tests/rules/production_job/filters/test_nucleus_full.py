"""More files than the cap on the way to the nucleus close every queue."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.nucleus_full import NucleusFull
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(nucleus_queued=10_000.0),
    rejected(nucleus_queued=10_001.0),
    rejected(nucleus_queued=10_001.0, at_nucleus=True),
    kept(nucleus_queued=None),
    kept(nucleus_queued=10_001.0, has_nucleus=False),
    kept(nucleus_queued=10_001.0, NQUEUED_NUC_CAP_FOR_JOBS=20_000),
    rejected(nucleus_queued=201.0, NQUEUED_NUC_CAP_FOR_JOBS=200),
    kept(nucleus_queued=1.0, NQUEUED_NUC_CAP_FOR_JOBS=1),
    rejected(nucleus_queued=0.0, NQUEUED_NUC_CAP_FOR_JOBS=0),
    rejected(nucleus_queued=None, at_nucleus=True, NQUEUED_NUC_CAP_FOR_JOBS=0),
    kept(nucleus_queued=None, has_nucleus=False, NQUEUED_NUC_CAP_FOR_JOBS=0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_nucleus_full(case: Case) -> None:
    check(NucleusFull(), case)
