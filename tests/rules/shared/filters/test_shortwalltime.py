"""The expected walltime in seconds must not exceed maxtime."""

from __future__ import annotations

import pytest

from broker.rules.shared.filters.shortwalltime import Shortwalltime
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=8.0, maxtime_s=1250.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=8.0, maxtime_s=1249.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=0.0, maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=0.0, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=None, maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=None, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=20.0, maxtime_s=5000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=20.0, maxtime_s=4999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=0.0, maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=0.0, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=None, maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=None, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=45.0, maxtime_s=20000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=45.0, maxtime_s=19999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=0.0, basewalltime=700.0, maxtime_s=700.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=0.0, basewalltime=700.0, maxtime_s=699.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=None, basewalltime=700.0, maxtime_s=700.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=None, basewalltime=700.0, maxtime_s=699.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=500.0, maxtime_s=10500.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=500.0, maxtime_s=10499.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=None, maxtime_s=10600.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=None, maxtime_s=10599.5),
    kept(cputime=90_000.0, cputimeunit="mHS06sPerEvent", atom_events=1000.0, corepower=10.0, maxtime_s=10000.0),
    rejected(cputime=90_000.0, cputimeunit="mHS06sPerEvent", atom_events=1000.0, corepower=10.0, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cputimeunit="HS06sPerEventFixed", maxtime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cputimeunit="HS06sPerEventFixed", maxtime_s=9999.5),
    kept(cputime=90_000.0, cputimeunit="mHS06sPerEventFixed", atom_events=1000.0, corepower=10.0, maxtime_s=10000.0),
    rejected(cputime=90_000.0, cputimeunit="mHS06sPerEventFixed", atom_events=1000.0, corepower=10.0, maxtime_s=9999.5),
    kept(cputimeunit=None, walltime=40.0, atom_mb=1000.0, cores=4.0, basewalltime=600.0, maxtime_s=10000.0),
    rejected(cputimeunit=None, walltime=40.0, atom_mb=1000.0, cores=4.0, basewalltime=600.0, maxtime_s=9999.5),
    kept(cputimeunit="kSI2kseconds", walltime=10.0, atom_mb=1000.0, corepower=50.0, maxtime_s=10000.0),
    rejected(cputimeunit="kSI2kseconds", walltime=10.0, atom_mb=1000.0, corepower=50.0, maxtime_s=9999.5),
    kept(
        cputime=90.0,
        atom_events=1000.0,
        corepower=10.0,
        event_service=True,
        eventservice=1.0,
        es_consumers=2.0,
        es_attempts=4.0,
        maxtime_s=1000.0,
    ),
    rejected(
        cputime=90.0,
        atom_events=1000.0,
        corepower=10.0,
        event_service=True,
        eventservice=1.0,
        es_consumers=2.0,
        es_attempts=4.0,
        maxtime_s=999.5,
    ),
    kept(cputime=270.0, atom_events=1000.0, corepower=10.0, event_service=True, eventservice=1.0, maxtime_s=10000.0),
    rejected(cputime=270.0, atom_events=1000.0, corepower=10.0, event_service=True, eventservice=1.0, maxtime_s=9999.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=0.0),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=None),
    kept(cputime=None, maxtime_s=1.0),
    kept(cputimeunit=None, walltime=None, maxtime_s=1.0),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=1.0, merging=True),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, maxtime_s=1.0, one_preassigned=True),
    # with a dynamic number of events, only the granularity must fit at a queue with a minimum walltime
    kept(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        maxtime_s=1000.0,
        mintime_s=1.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        maxtime_s=999.5,
        mintime_s=1.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        maxtime_s=1000.0,
        mintime_s=0.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        maxtime_s=1000.0,
        mintime_s=None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_shortwalltime(case: Case) -> None:
    check(Shortwalltime(), case)
