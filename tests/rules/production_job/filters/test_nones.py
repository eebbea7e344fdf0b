"""Queues for event service only take no other jobs."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.nones import Nones
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(jobseed="es"),
    kept(jobseed="eshigh"),
    kept(jobseed="all"),
    kept(jobseed="std"),
    kept(jobseed=None),
    kept(event_service=True, jobseed="es"),
    kept(jobseed="es", one_preassigned=True),
    rejected(jobseed="es", listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_nones(case: Case) -> None:
    check(Nones(), case)
