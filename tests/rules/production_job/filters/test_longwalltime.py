"""The expected walltime in seconds must reach mintime."""

from __future__ import annotations

import pytest

from broker.rules.contract import JobPairs
from broker.rules.production_job.filters.longwalltime import Longwalltime
from tests.rules.builders import Case, check, kept, make_facts, make_queues, make_tasks, rejected, tuning_for

CASES = [
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=8.0, mintime_s=1250.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=8.0, mintime_s=1250.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=0.0, mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=0.0, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=None, mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cores=None, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=20.0, mintime_s=5000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=20.0, mintime_s=5000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=0.0, mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=0.0, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=None, mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=None, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=45.0, mintime_s=20000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=45.0, mintime_s=20000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=0.0, basewalltime=700.0, mintime_s=700.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=0.0, basewalltime=700.0, mintime_s=700.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=None, basewalltime=700.0, mintime_s=700.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cpuefficiency=None, basewalltime=700.0, mintime_s=700.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=500.0, mintime_s=10500.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=500.0, mintime_s=10500.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=None, mintime_s=10600.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, basewalltime=None, mintime_s=10600.5),
    kept(cputime=90_000.0, cputimeunit="mHS06sPerEvent", atom_events=1000.0, corepower=10.0, mintime_s=10000.0),
    rejected(cputime=90_000.0, cputimeunit="mHS06sPerEvent", atom_events=1000.0, corepower=10.0, mintime_s=10000.5),
    kept(cputime=90.0, atom_events=1000.0, corepower=10.0, cputimeunit="HS06sPerEventFixed", mintime_s=10000.0),
    rejected(cputime=90.0, atom_events=1000.0, corepower=10.0, cputimeunit="HS06sPerEventFixed", mintime_s=10000.5),
    kept(cputime=90_000.0, cputimeunit="mHS06sPerEventFixed", atom_events=1000.0, corepower=10.0, mintime_s=10000.0),
    rejected(
        cputime=90_000.0, cputimeunit="mHS06sPerEventFixed", atom_events=1000.0, corepower=10.0, mintime_s=10000.5
    ),
    kept(cputimeunit=None, walltime=40.0, atom_mb=1000.0, cores=4.0, basewalltime=600.0, mintime_s=10000.0),
    rejected(cputimeunit=None, walltime=40.0, atom_mb=1000.0, cores=4.0, basewalltime=600.0, mintime_s=10000.5),
    kept(cputimeunit="kSI2kseconds", walltime=10.0, atom_mb=1000.0, corepower=50.0, mintime_s=10000.0),
    rejected(cputimeunit="kSI2kseconds", walltime=10.0, atom_mb=1000.0, corepower=50.0, mintime_s=10000.5),
    kept(
        cputime=90.0,
        atom_events=1000.0,
        corepower=10.0,
        event_service=True,
        eventservice=1.0,
        es_consumers=2.0,
        es_attempts=4.0,
        mintime_s=1000.0,
    ),
    rejected(
        cputime=90.0,
        atom_events=1000.0,
        corepower=10.0,
        event_service=True,
        eventservice=1.0,
        es_consumers=2.0,
        es_attempts=4.0,
        mintime_s=1000.5,
    ),
    kept(cputime=270.0, atom_events=1000.0, corepower=10.0, event_service=True, eventservice=1.0, mintime_s=10000.0),
    rejected(
        cputime=270.0, atom_events=1000.0, corepower=10.0, event_service=True, eventservice=1.0, mintime_s=10000.5
    ),
    kept(cputime=0.0, basewalltime=0.0, mintime_s=0.0),
    kept(cputime=None, mintime_s=None),
    rejected(cputime=None, mintime_s=1.0),
    rejected(cputimeunit=None, walltime=None, mintime_s=1.0),
    rejected(cputime=0.0, basewalltime=0.0, mintime_s=1.0),
    kept(cputime=0.0, mintime_s=1.0, merging=True),
    # a dynamic number of events of 1 is enough to let jobs grow
    kept(
        cputime=90.0,
        dynamic_num_events=1.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=5000.0,
        mintime_s=50000.0,
    ),
    # with a dynamic number of events, jobs can grow up to the longest run and the maximum
    kept(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        mintime_s=5000.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        mintime_s=5000.5,
    ),
    kept(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        max_events_per_job=300.0,
        mintime_s=3000.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=500.0,
        max_events_per_job=300.0,
        mintime_s=3000.5,
    ),
    kept(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=50.0,
        mintime_s=1000.0,
    ),
    rejected(
        cputime=90.0,
        dynamic_num_events=100.0,
        corepower=10.0,
        atom_events=1000.0,
        longest_run_events=None,
        mintime_s=1000.5,
    ),
]


def test_a_chunk_with_dynamic_events_does_not_affect_other_chunks() -> None:
    rule = Longwalltime()
    tasks = make_tasks(2, cputime=90.0, atom_events=1000.0, longest_run_events=5000.0, dynamic_num_events=[1.0, None])
    pairs = JobPairs(tasks, make_queues(corepower=10.0, mintime_s=20000.0), make_facts(2), tuning_for(rule))
    assert rule.keep(pairs).tolist() == [[True], [False]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_longwalltime(case: Case) -> None:
    check(Longwalltime(), case)
