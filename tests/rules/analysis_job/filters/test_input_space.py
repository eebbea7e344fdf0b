"""Usable GB at the default input endpoint, in a pass without the locality check."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.input_space import InputSpace
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

AFAR = {"local_pass": False}
CASES = [
    kept(**AFAR, input_usable_gb=200.5),
    rejected(**AFAR, input_usable_gb=200.0),
    # the check is skipped for the output endpoint, and for an unknown endpoint
    kept(**AFAR, input_usable_gb=None),
    rejected(**AFAR, has_input_storage=False),
    kept(**AFAR, input_usable_gb=101.0, STORAGE_MIN_FREE_SIZE=100),
    rejected(**AFAR, input_usable_gb=100.0, STORAGE_MIN_FREE_SIZE=100),
    # the check is skipped with the locality check, and without input
    kept(local_pass=True, input_usable_gb=0.0),
    kept(**AFAR, input_usable_gb=0.0, total_files=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_input_space(case: Case) -> None:
    check(InputSpace(), case)
