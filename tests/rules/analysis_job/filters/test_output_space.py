"""The usable GB at the default output endpoint must exceed the limit."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.output_space import OutputSpace
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(output_usable_gb=200.5),
    rejected(output_usable_gb=200.0),
    rejected(output_usable_gb=-3.0),
    # the check is skipped for an unknown endpoint
    kept(output_usable_gb=None),
    rejected(has_output=False),
    rejected(has_output=False, output_usable_gb=None),
    kept(output_usable_gb=101.0, STORAGE_MIN_FREE_SIZE_OUTPUT=100),
    rejected(output_usable_gb=100.0, STORAGE_MIN_FREE_SIZE_OUTPUT=100),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_output_space(case: Case) -> None:
    check(OutputSpace(), case)
