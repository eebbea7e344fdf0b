"""Failed and closed jobs must be fewer than twice the finished ones, or fewer than the minimum."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.bad_jobs import BadJobs, BadJobsOptions
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(jobs_bad=4.0),
    rejected(jobs_bad=5.0),
    kept(jobs_bad=4.0, jobs_finished=2.0),
    rejected(jobs_bad=5.0, jobs_finished=2.0),
    kept(jobs_bad=5.0, jobs_finished=3.0),
    rejected(jobs_bad=6.0, jobs_finished=3.0),
    kept(jobs_bad=9.0, MIN_BAD_JOBS_TO_SKIP_PQ=10),
    rejected(jobs_bad=10.0, MIN_BAD_JOBS_TO_SKIP_PQ=10),
    # zero bad jobs are never too many
    kept(jobs_bad=0.0, MIN_BAD_JOBS_TO_SKIP_PQ=1),
    kept(jobs_bad=99.0, site_named=True),
    rejected(jobs_bad=99.0, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_bad_jobs(case: Case) -> None:
    check(BadJobs(), case)


WITH_STABILIZER = BadJobs()
WITH_STABILIZER.options = BadJobsOptions(asked="with_stabilizer", equality="passes")

ONLY_WHERE_LOOKED_AT = [
    rejected(jobs_bad=6.0, can_be_throttled=True),
    kept(jobs_bad=5.0, can_be_throttled=True),
    kept(jobs_bad=6.0, can_be_throttled=False),
    kept(jobs_bad=6.0, can_be_throttled=True, user_ignored=True),
    kept(jobs_bad=6.0, can_be_throttled=True, merging=True),
]


@pytest.mark.parametrize("case", ONLY_WHERE_LOOKED_AT, ids=lambda case: str(case.given))
def test_bad_jobs_only_where_the_stabilizer_looks(case: Case) -> None:
    check(WITH_STABILIZER, case)
