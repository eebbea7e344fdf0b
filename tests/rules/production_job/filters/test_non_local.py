"""Queues can require local input."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.non_local import NonLocal
from tests.rules.builders import GB, Case, check, kept, rejected

CASES = [
    kept(use_only_local_data=True),
    rejected(use_only_local_data=True, available_bytes=GB - 1),
    rejected(use_only_local_data=True, available_files=0.0),
    rejected(use_only_local_data=True, available_bytes=None),
    kept(available_bytes=0.0, available_files=0.0),
    kept(use_only_local_data=True, total_bytes=0.0, available_bytes=0.0, available_files=0.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_non_local(case: Case) -> None:
    check(NonLocal(), case)
