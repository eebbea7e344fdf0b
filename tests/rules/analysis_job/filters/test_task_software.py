"""The software and hardware of a task, as given by its transHome and transUses."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.task_software import TaskSoftware
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

ALL, ANY, NONE, GPU, OLD = range(5)
CACHE, FIXED = "AnalysisTransforms-Athena_24.0.41.1", "x86_64-slc6-gcc8-opt"
CASES = [
    kept(unified=ALL, transhome=CACHE),
    rejected(unified=NONE, transhome=CACHE),
    kept(unified=ANY, transhome=CACHE, architecture=FIXED),
    rejected(unified=ANY, transhome=CACHE, architecture="#x86_64"),
    kept(unified=OLD, transhome=CACHE, architecture=FIXED),
    rejected(unified=OLD, transhome=CACHE, architecture="x86_64-el9-gcc13-opt"),
    # nightlies are not in the CVMFS of that queue
    rejected(unified=OLD, transhome="AnalysisTransforms-Athena_2026-08-01T2101", architecture=FIXED),
    kept(unified=ALL, transhome="AnalysisTransforms-Athena_2026-08-01T2101"),
    # a release given by transUses, and one of unreadable version
    kept(unified=OLD, transhome="AnalysisTransforms", transuses="Atlas-21.0.15", architecture=FIXED),
    kept(unified=ALL, transhome="AnalysisTransforms-Athena_24.0.41"),
    rejected(unified=ALL, transhome="AnalysisTransforms-Athena_main_24.0.41"),
    # without transHome and transUses only the hardware counts
    kept(unified=OLD, architecture="x86_64-el9-gcc13-opt"),
    rejected(unified=OLD, architecture="aarch64-el9-gcc13-opt"),
    rejected(unified=NONE),
    kept(unified=GPU, architecture="#&nvidia:vram>=15360"),
    rejected(unified=GPU, architecture="#&nvidia:vram>=15361"),
    rejected(unified=ALL, transhome=CACHE, container_name="img", only_tags_for_fc=True),
    kept(unified=ALL, transhome=CACHE, container_name="img"),
    # a platform pattern is left to the next rule
    kept(unified=OLD, transhome=CACHE, architecture="x86_64-(slc6|el9)-gcc8-opt"),
    # a single named queue is exempt
    kept(unified=NONE, transhome=CACHE, site_named=True),
    rejected(unified=NONE, transhome=CACHE, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_task_software(case: Case) -> None:
    check(TaskSoftware(), case)
