"""Queues for urgent event service take no other event service."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.eshigh import Eshigh
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(event_service=True, jobseed="eshigh"),
    kept(event_service=True, es_high=True, jobseed="eshigh"),
    kept(event_service=True, jobseed="es"),
    kept(event_service=True, jobseed=None),
    kept(jobseed="eshigh"),
    kept(event_service=True, jobseed="eshigh", one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_eshigh(case: Case) -> None:
    check(Eshigh(), case)
