"""No job of the task was closed at the queue."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.analysis_job.filters.closed_jobs import ClosedJobs
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(jobs_closed=0.0),
    rejected(jobs_closed=1.0),
    kept(jobs_closed=np.nan),
    kept(jobs_closed=1.0, merging=True),
    kept(jobs_closed=1.0, site_named=True),
    rejected(jobs_closed=1.0, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_closed_jobs(case: Case) -> None:
    check(ClosedJobs(), case)
