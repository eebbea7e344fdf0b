"""Transferring jobs must not exceed the queue's limit, 2000 by default, or twice the running jobs."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.transferring import Transferring
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(transferring=2000.0),
    rejected(transferring=2001.0),
    rejected(transferring=2001.0, transferringlimit=0.0),
    rejected(transferring=2001.0, transferringlimit=None),
    kept(transferring=100.0, transferringlimit=100.0),
    rejected(transferring=101.0, transferringlimit=100.0),
    kept(transferring=200.0, transferringlimit=100.0, all_running=100.0),
    rejected(transferring=201.0, transferringlimit=100.0, all_running=100.0),
    kept(transferring=2001.0, at_nucleus=True),
    kept(transferring=2001.0, shares_storage=True),
    kept(transferring=2001.0, storage_at_nucleus=True),
    kept(transferring=2001.0, storage_known=False),
    rejected(transferring=2001.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_transferring(case: Case) -> None:
    check(Transferring(), case)
