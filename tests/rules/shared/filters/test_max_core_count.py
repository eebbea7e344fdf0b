"""A queue must have no more cores than the task can use."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.max_core_count import MaxCoreCount
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(max_core_count=8.0, cores=8.0),
    rejected(max_core_count=8.0, cores=9.0),
    kept(max_core_count=8.0, cores=None),
    kept(max_core_count=8.0, cores=0.0),
    kept(max_core_count=0.0, cores=64.0),
    kept(max_core_count=8.0, cores=64.0, one_preassigned=True),
    rejected(max_core_count=8.0, cores=64.0, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_max_core_count(case: Case) -> None:
    check(MaxCoreCount(), case)
