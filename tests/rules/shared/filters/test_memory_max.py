"""Memory of a slot in MB: (per core x cores + base) x 0.9; no base when merging."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.memory_max import MemoryMax
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(ramcount=2000.0, cores=8.0, maxrss_mb=14400.0),
    rejected(ramcount=2000.0, cores=8.0, maxrss_mb=14399.5),
    kept(ramcount=2000.0, cores=8.0, baseramcount=500.0, maxrss_mb=14850.0),
    rejected(ramcount=2000.0, cores=8.0, baseramcount=500.0, maxrss_mb=14849.5),
    kept(ramcount=2000.0, cores=None, maxrss_mb=1800.0),
    rejected(ramcount=2000.0, cores=None, maxrss_mb=1799.5),
    kept(ramcount=2000.0, cores=0.0, baseramcount=500.0, maxrss_mb=2250.0),
    rejected(ramcount=2000.0, cores=0.0, baseramcount=500.0, maxrss_mb=2249.5),
    kept(ramcount=2000.0, cores=8.0, ramunit="MBPerCoreFixed", maxrss_mb=14400.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit="MBPerCoreFixed", maxrss_mb=14399.5),
    kept(ramcount=2000.0, cores=8.0, ramunit="MB", baseramcount=500.0, maxrss_mb=2250.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit="MB", baseramcount=500.0, maxrss_mb=2249.5),
    kept(ramcount=2000.0, cores=8.0, ramunit=None, maxrss_mb=1800.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit=None, maxrss_mb=1799.5),
    kept(ramcount=1000.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=1800.0),
    rejected(ramcount=1000.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=1799.5),
    kept(ramcount=3000.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=2700.0),
    rejected(ramcount=3000.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=2699.5),
    kept(ramcount=None, task_ramcount=2000.0, cores=1.0, maxrss_mb=1800.0),
    rejected(ramcount=None, task_ramcount=2000.0, cores=1.0, maxrss_mb=1799.5),
    kept(ramcount=0.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=1800.0),
    rejected(ramcount=0.0, task_ramcount=2000.0, cores=1.0, maxrss_mb=1799.5),
    kept(
        ramcount=1000.0,
        task_ramcount=9000.0,
        mergeramcount=1500.0,
        merging=True,
        cores=8.0,
        baseramcount=500.0,
        maxrss_mb=1800.0,
    ),
    rejected(
        ramcount=1000.0,
        task_ramcount=9000.0,
        mergeramcount=1500.0,
        merging=True,
        cores=8.0,
        baseramcount=500.0,
        maxrss_mb=1799.5,
    ),
    kept(ramcount=1000.0, mergeramcount=4000.0, merging=True, cores=8.0, maxrss_mb=3600.0),
    rejected(ramcount=1000.0, mergeramcount=4000.0, merging=True, cores=8.0, maxrss_mb=3599.5),
    kept(ramcount=1000.0, task_ramcount=9000.0, mergeramcount=None, merging=True, cores=8.0, maxrss_mb=900.0),
    rejected(ramcount=1000.0, task_ramcount=9000.0, mergeramcount=None, merging=True, cores=8.0, maxrss_mb=899.5),
    kept(ramcount=1000.0, mergeramcount=0.0, merging=True, cores=8.0, maxrss_mb=900.0),
    rejected(ramcount=1000.0, mergeramcount=0.0, merging=True, cores=8.0, maxrss_mb=899.5),
    kept(ramcount=0.0, maxrss_mb=1.0),
    kept(ramcount=None, maxrss_mb=1.0),
    kept(ramcount=None, task_ramcount=0.0, maxrss_mb=1.0),
    kept(ramcount=0.0, task_ramcount=None, maxrss_mb=1.0),
    kept(ramcount=9e9, maxrss_mb=0.0),
    kept(ramcount=9e9, maxrss_mb=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_memory_max(case: Case) -> None:
    check(MemoryMax(), case)
