"""Free space of the default output endpoint in GB."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.free_space import FreeSpace
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(space_free_gb=200.0),
    kept(space_free_gb=200.5),
    rejected(space_free_gb=0.0),
    kept(space_free_gb=None),
    rejected(space_free_gb=300.0, STORAGE_MIN_FREE_SIZE=300),
    kept(space_free_gb=100.0, STORAGE_MIN_FREE_SIZE=99),
    rejected(space_free_gb=200.0, STORAGE_MIN_FREE_SIZE=0),
    rejected(space_free_gb=200.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_free_space(case: Case) -> None:
    check(FreeSpace(), case)


@pytest.mark.parametrize(
    "case",
    [
        kept(space_usable_gb=200.0, space_free_gb=0.0),
        rejected(space_usable_gb=199.5, space_free_gb=500.0),
        kept(space_usable_gb=None),
    ],
    ids=lambda case: str(case.given),
)
def test_usable_space(case: Case) -> None:
    check(FreeSpace().configured({"space": "usable"}), case)
