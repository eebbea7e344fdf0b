"""Tasks that only read directly need a queue with direct access."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.direct_access import DirectAccess
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    rejected(allow_input_lan=2),
    kept(allow_input_lan=2, direct_access_lan=True),
    kept(allow_input_lan=2, maxinputsize_mb=-1.0),
    rejected(allow_input_lan=2, maxinputsize_mb=60_000.0),
    rejected(allow_input_lan=2, maxinputsize_mb=None),
    kept(allow_input_lan=1),
    kept(allow_input_lan=0),
    kept(allow_input_lan=2, merging=True),
    rejected(allow_input_lan=2, direct_access_wan=True),
    rejected(allow_input_lan=2, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_direct_access(case: Case) -> None:
    check(DirectAccess(), case)
