"""A t1Weight of -1 restricts a task to its nucleus."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.t1weight import T1weight
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(t1weight=-1.0),
    kept(t1weight=-1.0, at_nucleus=True),
    kept(t1weight=-2.0),
    kept(t1weight=0.0),
    kept(t1weight=-1.0, merging=True),
    rejected(t1weight=-1.0, shares_storage=True),
    rejected(t1weight=-1.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_t1weight(case: Case) -> None:
    check(T1weight(), case)


@pytest.mark.parametrize(
    "case",
    [rejected(t1weight=-2.0), kept(t1weight=0.0), kept(t1weight=-2.0, shares_storage=True)],
    ids=lambda case: str(case.given),
)
def test_t1weight_with_options(case: Case) -> None:
    check(T1weight().configured({"asking": "any_negative", "sharing": True}), case)
