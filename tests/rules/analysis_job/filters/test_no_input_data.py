"""The input must be at the queue, in a pass with the locality check."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.no_input_data import NoInputData
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(has_input=True),
    rejected(has_input=False),
    # in a pass without the check nobody looks
    kept(has_input=False, local_pass=False),
    # the bytes say nothing: what counts as input is worked out before
    rejected(has_input=False, total_bytes=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_no_input_data(case: Case) -> None:
    check(NoInputData(), case)
