"""Closeness -1 blocks a link."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.link_blocked import LinkBlocked
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(closeness=0.0),
    kept(closeness=11.0),
    rejected(closeness=-1.0),
    kept(closeness=None),
    kept(closeness=-2.0),
    rejected(closeness=-1.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_link_blocked(case: Case) -> None:
    check(LinkBlocked(), case)
