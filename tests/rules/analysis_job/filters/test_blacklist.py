"""Endpoints must be readable and writable over LAN, and over WAN if the input is elsewhere."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.blacklist import Blacklist
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(),
    rejected(reads_lan=False),
    rejected(writes_lan=False),
    # WAN counts only if it is needed
    kept(receives=False),
    kept(sends=False),
    kept(remote_source=False),
    kept(needs_wan=True),
    rejected(needs_wan=True, receives=False),
    rejected(needs_wan=True, sends=False),
    rejected(needs_wan=True, remote_source=False),
    rejected(needs_wan=True, reads_lan=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_blacklist(case: Case) -> None:
    check(Blacklist(), case)
