"""Some input endpoint must be readable over LAN."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.read_lan_blacklist import ReadLanBlacklist
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(can_read=False),
    rejected(can_read=False, can_write=False),
    kept(can_read=False, space_free_gb=200.0),
    rejected(can_read=False, space_free_gb=None),
    rejected(can_read=False, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_read_lan_blacklist(case: Case) -> None:
    check(ReadLanBlacklist(), case)
