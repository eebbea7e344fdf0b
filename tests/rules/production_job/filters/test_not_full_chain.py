"""Queues reserved for full chains take no other jobs."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.not_full_chain import NotFullChain
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(bare_nucleus=1),
    kept(bare_nucleus=2),
    kept(bare_nucleus=0),
    rejected(bare_nucleus=1, full_chain=1, nucleus_bare=0),
    kept(bare_nucleus=1, full_chain=1, nucleus_bare=1),
    kept(bare_nucleus=1, full_chain=3, nucleus_bare=2),
    rejected(bare_nucleus=1, full_chain=0, nucleus_bare=1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_not_full_chain(case: Case) -> None:
    check(NotFullChain(), case)
