"""Queues can reject high IO intensity, in kB/s."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.max_io_intensity import MaxIoIntensity
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(iointensity=300.0, max_io_intensity=300.0),
    rejected(iointensity=301.0, max_io_intensity=300.0),
    kept(iointensity=301.0, max_io_intensity=None),
    kept(iointensity=None, max_io_intensity=300.0),
    kept(iointensity=301.0, max_io_intensity=300.0, merging=True),
    rejected(iointensity=1.0, max_io_intensity=0.0),
    kept(iointensity=0.0, max_io_intensity=0.0),
    rejected(iointensity=301.0, max_io_intensity=300.0, one_preassigned=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_max_io_intensity(case: Case) -> None:
    check(MaxIoIntensity(), case)
