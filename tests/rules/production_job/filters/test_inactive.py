"""Urgent chunks avoid queues that start no jobs while some wait."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.inactive import Inactive
from tests.rules.builders import NOW_S, Case, check, kept, rejected

CASES = [
    rejected(laststart_s=NOW_S - 7201, all_activated=1.0, currentpriority=800.0),
    rejected(laststart_s=NOW_S - 7201, all_activated=1.0, scout=True),
    rejected(laststart_s=NOW_S - 7201, all_activated=1.0, merging=True),
    rejected(laststart_s=NOW_S - 7201, all_activated=1.0, merge_output=True),
    kept(laststart_s=NOW_S - 7200, all_activated=1.0, scout=True),
    kept(laststart_s=NOW_S - 7201, all_activated=0.0, scout=True),
    kept(laststart_s=NOW_S - 7201, all_activated=1.0, currentpriority=799.0),
    kept(laststart_s=None, all_activated=1.0, scout=True),
    kept(laststart_s=NOW_S - 7201, all_activated=1.0, currentpriority=None),
    kept(laststart_s=NOW_S - 7201, all_activated=1.0, scout=True, one_preassigned=True),
    kept(laststart_s=NOW_S - 7201, all_activated=1.0, scout=True, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_inactive(case: Case) -> None:
    check(Inactive(), case)
