"""A nucleus that is closed over WAN keeps only its own queues."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.nucleus_endpoint import NucleusEndpoint
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(nucleus_wan=False),
    kept(nucleus_wan=False, at_nucleus=True),
    kept(nucleus_wan=False, has_nucleus=False),
    rejected(nucleus_wan=False, one_preassigned=True),
    rejected(nucleus_wan=False, shares_storage=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_nucleus_endpoint(case: Case) -> None:
    check(NucleusEndpoint(), case)


@pytest.mark.parametrize(
    "case",
    [
        rejected(nucleus_receives=False),
        kept(nucleus_receives=True, nucleus_wan=False),
        kept(nucleus_receives=False, nucleus_is_satellite=True),
    ],
    ids=lambda case: str(case.given),
)
def test_nucleus_endpoint_with_options(case: Case) -> None:
    check(NucleusEndpoint().configured({"activities": "write", "satellites": False}), case)
