"""Pilots of the last 3 hours count, whatever slots are published."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.task_pilots import TaskPilots
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(n_pilots=1.0),
    rejected(n_pilots=0.0),
    rejected(n_pilots=None),
    rejected(n_pilots=0.0, has_slots=True),
    rejected(n_pilots=0.0, site_named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_task_pilots(case: Case) -> None:
    check(TaskPilots(), case)
