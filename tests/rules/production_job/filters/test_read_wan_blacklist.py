"""Some output endpoint must be readable over WAN."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.read_wan_blacklist import ReadWanBlacklist
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(can_send=False),
    kept(can_send=False, can_read=False),
    kept(can_send=False, can_write=False),
    kept(can_send=False, can_receive=False),
    kept(can_send=False, space_free_gb=200.0),
    rejected(can_send=False, remote_source=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_read_wan_blacklist(case: Case) -> None:
    check(ReadWanBlacklist(), case)
