"""Input that cannot be read over WAN stays with the queues of the nucleus."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.source_blacklist import SourceBlacklist
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(remote_source=False),
    kept(remote_source=False, at_nucleus=True),
    kept(remote_source=False, can_read=False),
    kept(remote_source=False, can_write=False),
    kept(remote_source=False, can_receive=False),
    kept(remote_source=False, can_send=False),
    kept(remote_source=False, space_free_gb=200.0),
    rejected(remote_source=False, shares_storage=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_source_blacklist(case: Case) -> None:
    check(SourceBlacklist(), case)
