"""Some input endpoint must be writable over WAN."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.write_wan_blacklist import WriteWanBlacklist
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(can_receive=False),
    kept(can_receive=False, can_read=False),
    kept(can_receive=False, can_write=False),
    kept(can_receive=False, space_free_gb=200.0),
    rejected(can_receive=False, can_send=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_write_wan_blacklist(case: Case) -> None:
    check(WriteWanBlacklist(), case)
