"""Jobs of a full chain on a bare nucleus stay there."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.full_chain import FullChain
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(full_chain=0, nucleus_bare=0),
    kept(full_chain=0, nucleus_bare=1),
    kept(full_chain=0, nucleus_bare=2),
    kept(full_chain=1, nucleus_bare=0),
    rejected(full_chain=1, nucleus_bare=1),
    rejected(full_chain=1, nucleus_bare=2),
    kept(full_chain=2, nucleus_bare=0),
    rejected(full_chain=2, nucleus_bare=1),
    rejected(full_chain=2, nucleus_bare=2),
    kept(full_chain=3, nucleus_bare=0),
    rejected(full_chain=3, nucleus_bare=1),
    rejected(full_chain=3, nucleus_bare=2),
    kept(full_chain=1, nucleus_bare=1, at_nucleus=True),
    kept(full_chain=1, nucleus_bare=1, has_nucleus=False),
    rejected(full_chain=1, nucleus_bare=2, shares_storage=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_full_chain(case: Case) -> None:
    check(FullChain(), case)
