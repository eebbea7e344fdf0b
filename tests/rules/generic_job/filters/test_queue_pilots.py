"""Pilots of the queue itself."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.queue_pilots import QueuePilots
from tests.rules.builders import Case, check, kept, rejected

PSEUDO = {"queue_name": "QUEUE_A/SCORE", "queue_unified_name": "QUEUE_A"}
CASES = [
    kept(n_pilots=1.0),
    rejected(n_pilots=0.0),
    rejected(n_pilots=None),
    rejected(n_pilots=1.0, **PSEUDO),
    kept(n_pilots=0.0, allow_no_pilot=True),
    kept(n_pilots=0.0, allow_no_pilot=True, **PSEUDO),
    kept(n_pilots=0.0, prodsourcelabel="test"),
    rejected(n_pilots=0.0, prodsourcelabel="ptest"),
    rejected(n_pilots=0.0, prodsourcelabel=None),
    rejected(n_pilots=0.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_queue_pilots(case: Case) -> None:
    check(QueuePilots(), case)
