"""The user wants the queue."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.not_wanted import NotWanted
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [kept(wanted=True), rejected(wanted=False), rejected(wanted=False, merging=True)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_not_wanted(case: Case) -> None:
    check(NotWanted(), case)
