"""The expected walltime in seconds against the minimum walltime of the queue, if known."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.too_short import TooShort
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

#: 1,000 events of 100 HS06 s at 10 HS06 and 100 %: 10,000 s.
LONG = {"cpuefficiency": 100.0}
CASES = [
    kept(**LONG, mintime_s=10_000.0),
    rejected(**LONG, mintime_s=10_001.0),
    kept(**LONG, mintime_s=0.0),
    kept(**LONG, mintime_s=None),
    kept(cpuefficiency=50.0, mintime_s=20_000.0),
    rejected(cpuefficiency=50.0, mintime_s=20_001.0),
    kept(**LONG, corepower=None, mintime_s=10_000.0),
    rejected(**LONG, cores=8.0, mintime_s=1251.0),
    kept(**LONG, cputimeunit="mHS06sPerEvent", cputime=100_000.0, mintime_s=10_000.0),
    rejected(**LONG, cputimeunit="mHS06sPerEvent", cputime=100_000.0, mintime_s=10_001.0),
    # an efficiency of 0 leaves the base walltime
    kept(cpuefficiency=0.0, basewalltime=600.0, mintime_s=600.0),
    rejected(cpuefficiency=None, basewalltime=None, mintime_s=601.0),
    # without HS06: seconds per MB, 1,000 MB
    kept(cputimeunit=None, cputime=None, walltime=5.0, walltimeunit="kSI2kseconds", mintime_s=5000.0),
    rejected(cputimeunit=None, cputime=None, walltime=5.0, walltimeunit="kSI2kseconds", mintime_s=5001.0),
    # an unknown walltime, and merging, are not compared
    kept(walltime_undefined=True, cputime=None, mintime_s=90_000.0),
    kept(**LONG, merging=True, mintime_s=90_000.0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_too_short(case: Case) -> None:
    check(TooShort(), case)
