"""Queues for jumbo jobs take only jumbo chunks."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.jumbo import Jumbo
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(use_jumbo=True, jumbo=True),
    rejected(use_jumbo=True),
    kept(use_jumbo=False),
    kept(use_jumbo=True, one_preassigned=True),
    rejected(use_jumbo=True, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_jumbo(case: Case) -> None:
    check(Jumbo(), case)
