"""Event service needs a queue that accepts it."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.es import Es
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(event_service=True, jobseed="std"),
    rejected(event_service=True, jobseed=None),
    kept(event_service=True, jobseed="es"),
    kept(event_service=True, jobseed="eshigh"),
    kept(event_service=True, jobseed="all"),
    kept(jobseed="std"),
    kept(event_service=True, jobseed="std", one_preassigned=True),
    rejected(event_service=True, jobseed="std", listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_es(case: Case) -> None:
    check(Es(), case)
