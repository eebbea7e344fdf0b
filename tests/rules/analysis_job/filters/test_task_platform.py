"""A platform pattern must match a platform of the queue."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.task_platform import TaskPlatform
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

ALL, ANY, NONE, GPU, OLD = range(5)
CACHE = "AnalysisTransforms-Athena_24.0.41.1"
CASES = [
    rejected(unified=GPU, transhome=CACHE, architecture="x86_64-el9.*"),
    kept(unified=OLD, transhome=CACHE, architecture="x86_64-(slc6|el9)-gcc8-opt"),
    kept(unified=GPU, transhome=CACHE, architecture="x86_64-el9-gcc13-opt"),
    kept(unified=ANY, transhome=CACHE, architecture="x86_64-el9.*"),
    # another requirement is unmet and reported first
    kept(unified=NONE, transhome=CACHE, architecture="x86_64-el9.*"),
    kept(unified=GPU, transhome=CACHE, architecture="x86_64-el9.*", site_named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_task_platform(case: Case) -> None:
    check(TaskPlatform(), case)
