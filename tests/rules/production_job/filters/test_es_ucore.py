"""Event service keeps off single-core pseudo-queues."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.es_ucore import EsUcore
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(event_service=True, queue_resource_type="SCORE", cores=1.0),
    kept(event_service=True, queue_resource_type="MCORE", cores=8.0),
    kept(event_service=True, queue_resource_type=None, cores=1.0),
    kept(queue_resource_type="SCORE", cores=1.0),
    kept(event_service=True, queue_resource_type="SCORE", cores=1.0, one_preassigned=True),
    rejected(event_service=True, queue_resource_type="SCORE", cores=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_es_ucore(case: Case) -> None:
    check(EsUcore(), case)
