"""A queue that reads only local data must have all files."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.file_unavailable import FileUnavailable
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(lacks_files=False, use_only_local_data=True),
    rejected(lacks_files=True, use_only_local_data=True),
    kept(lacks_files=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_file_unavailable(case: Case) -> None:
    check(FileUnavailable(), case)
