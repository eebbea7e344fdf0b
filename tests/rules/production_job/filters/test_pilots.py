"""A queue needs recent pilots, with some exceptions."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.pilots import Pilots
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(n_pilots=0.0),
    kept(n_pilots=1.0),
    rejected(n_pilots=None),
    kept(n_pilots=0.0, has_slots=True),
    kept(n_pilots=0.0, jumbo=True, use_jumbo=True),
    rejected(n_pilots=0.0, jumbo=True),
    rejected(n_pilots=0.0, use_jumbo=True),
    kept(n_pilots=0.0, prodsourcelabel="ptest"),
    kept(n_pilots=0.0, prodsourcelabel="rc_test2"),
    rejected(n_pilots=0.0, prodsourcelabel="ptest", urgent=True),
    rejected(n_pilots=0.0, prodsourcelabel=None),
    kept(n_pilots=0.0, one_preassigned=True),
    kept(n_pilots=0.0, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_pilots(case: Case) -> None:
    check(Pilots(), case)
