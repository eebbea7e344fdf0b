"""Some output endpoint must be writable over LAN."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.write_lan_blacklist import WriteLanBlacklist
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(can_write=False),
    kept(can_write=False, can_read=False),
    kept(can_write=False, space_free_gb=200.0),
    rejected(can_write=False, can_receive=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_write_lan_blacklist(case: Case) -> None:
    check(WriteLanBlacklist(), case)
