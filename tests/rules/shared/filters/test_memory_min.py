"""High-memory slots take only jobs that need them."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.memory_min import MemoryMin
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(ramcount=2000.0, cores=8.0, minrss_mb=14400.0),
    rejected(ramcount=2000.0, cores=8.0, minrss_mb=14400.5),
    kept(ramcount=2000.0, cores=8.0, baseramcount=500.0, minrss_mb=14850.0),
    rejected(ramcount=2000.0, cores=8.0, baseramcount=500.0, minrss_mb=14850.5),
    kept(ramcount=2000.0, cores=None, minrss_mb=1800.0),
    rejected(ramcount=2000.0, cores=None, minrss_mb=1800.5),
    kept(ramcount=2000.0, cores=0.0, baseramcount=500.0, minrss_mb=2250.0),
    rejected(ramcount=2000.0, cores=0.0, baseramcount=500.0, minrss_mb=2250.5),
    kept(ramcount=2000.0, cores=8.0, ramunit="MBPerCoreFixed", minrss_mb=14400.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit="MBPerCoreFixed", minrss_mb=14400.5),
    kept(ramcount=2000.0, cores=8.0, ramunit="MB", baseramcount=500.0, minrss_mb=2250.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit="MB", baseramcount=500.0, minrss_mb=2250.5),
    kept(ramcount=2000.0, cores=8.0, ramunit=None, minrss_mb=1800.0),
    rejected(ramcount=2000.0, cores=8.0, ramunit=None, minrss_mb=1800.5),
    kept(ramcount=1000.0, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.0),
    rejected(ramcount=1000.0, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.5),
    kept(ramcount=3000.0, task_ramcount=2000.0, cores=1.0, minrss_mb=2700.0),
    rejected(ramcount=3000.0, task_ramcount=2000.0, cores=1.0, minrss_mb=2700.5),
    kept(ramcount=None, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.0),
    rejected(ramcount=None, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.5),
    kept(ramcount=0.0, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.0),
    rejected(ramcount=0.0, task_ramcount=2000.0, cores=1.0, minrss_mb=1800.5),
    kept(
        ramcount=1000.0,
        task_ramcount=9000.0,
        mergeramcount=1500.0,
        merging=True,
        cores=8.0,
        baseramcount=500.0,
        minrss_mb=1800.0,
    ),
    rejected(
        ramcount=1000.0,
        task_ramcount=9000.0,
        mergeramcount=1500.0,
        merging=True,
        cores=8.0,
        baseramcount=500.0,
        minrss_mb=1800.5,
    ),
    kept(ramcount=1000.0, mergeramcount=4000.0, merging=True, cores=8.0, minrss_mb=3600.0),
    rejected(ramcount=1000.0, mergeramcount=4000.0, merging=True, cores=8.0, minrss_mb=3600.5),
    kept(ramcount=1000.0, task_ramcount=9000.0, mergeramcount=None, merging=True, cores=8.0, minrss_mb=900.0),
    rejected(ramcount=1000.0, task_ramcount=9000.0, mergeramcount=None, merging=True, cores=8.0, minrss_mb=900.5),
    kept(ramcount=1000.0, mergeramcount=0.0, merging=True, cores=8.0, minrss_mb=900.0),
    rejected(ramcount=1000.0, mergeramcount=0.0, merging=True, cores=8.0, minrss_mb=900.5),
    kept(ramcount=0.0, minrss_mb=9e9),
    kept(ramcount=None, minrss_mb=9e9),
    kept(ramcount=None, task_ramcount=0.0, minrss_mb=9e9),
    kept(ramcount=0.0, task_ramcount=None, minrss_mb=9e9),
    kept(ramcount=1.0, minrss_mb=0.0),
    kept(ramcount=1.0, minrss_mb=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_memory_min(case: Case) -> None:
    check(MemoryMin(), case)
