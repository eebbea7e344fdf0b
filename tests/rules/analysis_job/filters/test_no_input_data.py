"""In a pass with the locality check, the input must be at the queue."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.no_input_data import NoInputData
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(has_input=True),
    rejected(has_input=False),
    # a pass without the check skips the rule
    kept(has_input=False, local_pass=False),
    # the bytes do not count: an earlier step decides what counts as input
    rejected(has_input=False, total_bytes=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_no_input_data(case: Case) -> None:
    check(NoInputData(), case)
