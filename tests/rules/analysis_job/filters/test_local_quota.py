"""The owner must have quota at the default output endpoint."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.local_quota import LocalQuota
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(over_local_quota=False),
    rejected(over_local_quota=True),
    rejected(over_local_quota=True, site_named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_local_quota(case: Case) -> None:
    check(LocalQuota(), case)
