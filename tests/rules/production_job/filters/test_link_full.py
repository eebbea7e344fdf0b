"""A link with more queued files than the cap closes its queue."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.link_full import LinkFull
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(link_queued=150.0),
    rejected(link_queued=151.0),
    kept(link_queued=None),
    kept(link_queued=0.0),
    kept(link_queued=151.0, NQUEUED_SAT_CAP=300),
    rejected(link_queued=11.0, NQUEUED_SAT_CAP=10),
    rejected(link_queued=2.0, NQUEUED_SAT_CAP=1),
    kept(link_queued=None, NQUEUED_SAT_CAP=1),
    rejected(link_queued=0.0, NQUEUED_SAT_CAP=0),
    rejected(link_queued=None, NQUEUED_SAT_CAP=0),
    kept(link_queued=None, has_nucleus=False, NQUEUED_SAT_CAP=0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_link_full(case: Case) -> None:
    check(LinkFull(), case)
