"""A jumbo chunk needs the minimum number of events of the queue."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.fewevents import Fewevents
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(jumbo=True, ready_events=500.0, min_events_for_jumbo=500.0),
    rejected(jumbo=True, ready_events=499.0, min_events_for_jumbo=500.0),
    kept(ready_events=499.0, min_events_for_jumbo=500.0),
    kept(jumbo=True, ready_events=0.0, min_events_for_jumbo=None),
    rejected(jumbo=True, ready_events=None, min_events_for_jumbo=1.0),
    kept(jumbo=True, ready_events=0.0, min_events_for_jumbo=500.0, one_preassigned=True),
    # a jumbo task at a queue for jumbo jobs
    rejected(usejumbo="W", ready_events=499.0, min_events_for_jumbo=500.0, use_jumbo=True),
    kept(usejumbo="W", ready_events=500.0, min_events_for_jumbo=500.0, use_jumbo=True),
    kept(usejumbo="W", ready_events=499.0, min_events_for_jumbo=500.0, use_jumbo=False),
    kept(usejumbo="D", ready_events=499.0, min_events_for_jumbo=500.0, use_jumbo=True),
    kept(usejumbo=None, ready_events=499.0, min_events_for_jumbo=500.0, use_jumbo=True),
    kept(usejumbo="W", ready_events=499.0, min_events_for_jumbo=500.0, use_jumbo=True, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_fewevents(case: Case) -> None:
    check(Fewevents(), case)
