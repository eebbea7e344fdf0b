"""Memory of a job against both limits of a slot, in MB."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.filters.raw_memory import RawMemory
from tests.rules.builders import Case, check, kept, rejected

MB_UNIT = {"ramunit": "MB", "task_ramcount": 2000}
PER_CORE = {"ramunit": "MBPerCore", "task_ramcount": 1000}
CASES = [
    kept(**MB_UNIT, maxrss_mb=2000),
    rejected(**MB_UNIT, maxrss_mb=1999),
    kept(**MB_UNIT, minrss_mb=2000),
    rejected(**MB_UNIT, minrss_mb=2001),
    *(kept(**MB_UNIT, maxrss_mb=no_value, minrss_mb=no_value) for no_value in (0, None)),
    # the base memory is added only to units per core
    kept(**MB_UNIT, baseramcount=500, cores=8, maxrss_mb=2000),
    kept(**PER_CORE, baseramcount=500, cores=8, maxrss_mb=8500),
    rejected(**PER_CORE, baseramcount=500, cores=8, maxrss_mb=8499),
    kept(ramunit="MBPerCoreFixed", task_ramcount=1000, cores=8, maxrss_mb=8000),
    # without cores of the queue, those of the task count
    *(kept(**PER_CORE, cores=no_value, corecount=4, maxrss_mb=4000) for no_value in (0, -1, None)),
    *(rejected(**PER_CORE, cores=no_value, corecount=4, maxrss_mb=3999) for no_value in (0, -1, None)),
    kept(**PER_CORE, cores=0, corecount=0, maxrss_mb=1000),
    # the larger of task and chunk; at least 2000 for merge jobs
    rejected(**MB_UNIT, ramcount=3000, maxrss_mb=2999),
    kept(ramunit="MB", task_ramcount=9000, merging=True, mergeramcount=100, ramcount=50, maxrss_mb=2000),
    rejected(ramunit="MB", merging=True, mergeramcount=100, maxrss_mb=1999),
    rejected(**PER_CORE, merging=True, mergeramcount=100, cores=8, maxrss_mb=15999),
    # exempt: no memory request, or a named queue
    kept(ramunit="MB", task_ramcount=None, ramcount=None, minrss_mb=1),
    kept(ramunit="MB", task_ramcount=0, ramcount=0, minrss_mb=1),
    kept(**MB_UNIT, maxrss_mb=1, one_preassigned=True),
    kept(**MB_UNIT, maxrss_mb=1, listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_raw_memory(case: Case) -> None:
    check(RawMemory(), case)
