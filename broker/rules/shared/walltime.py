"""Expected walltime of the smallest job of a chunk at each queue.

``cpuTime x events / (cores x core power x efficiency) + base`` where the task gives CPU time in HS06 s per event;
otherwise walltime per MB x MB of input / cores. Merging is not estimated: the figures of the task are not those of a
merge. Source: ATLAS Production Job Brokerage, estimated walltime.
"""

from __future__ import annotations

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import Bools, Floats, rows_of_two
from broker.domain.decisions import Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.shared.observing import number

ONE_DAY_S = 24 * 3600.0


def longest_walltime_s(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    """(T, Q): what must not exceed the longest time; NaN where undefined.

    With a dynamic number of events, a queue with a shortest time gets at least the granularity, not the whole file.
    """
    return _estimate(tasks, candidates, facts, tasks.dynamic_num_events)


def reachable_walltime_s(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    """(T, Q): what must reach the shortest time; NaN where undefined.

    With a dynamic number of events, jobs can grow to the longest run of consecutive events and the events allowed per
    job.
    """
    allowed = np.where(tasks.max_events_per_job > 0, tasks.max_events_per_job, np.inf)
    run = np.minimum(np.nan_to_num(tasks.longest_run_events), allowed)
    return _estimate(tasks, candidates, facts, np.maximum(tasks.dynamic_num_events, run))


def has_short_limit(candidates: QueueTable) -> Bools:
    """(1, Q): the longest time of the queue is set, and less than a day."""
    return np.asarray((candidates.maxtime_s > 0) & (candidates.maxtime_s < ONE_DAY_S))


def walltime_inputs(tasks: WorkTable, candidates: QueueTable) -> dict[str, Value]:
    """The figures of the estimate, for one chunk and one candidate."""
    hs06 = bool(estimates.is_hs06(tasks.cputimeunit).item())
    if not hs06:
        return {
            "walltime_s_per_mb": number(tasks.walltime),
            "input_mb": number(tasks.atom_mb),
            "cores": number(candidates.cores),
        }
    return {
        "cputime_hs06s": number(estimates.cputime_hs06s(tasks.cputime, tasks.cputimeunit)),
        "events": number(tasks.atom_events),
        "dynamic_events": number(tasks.dynamic_num_events),
        "cpuefficiency_percent": number(tasks.cpuefficiency),
        "base_s": number(estimates.base_walltime_s(tasks.basewalltime)),
        "cores": number(candidates.cores),
        "corepower_hs06": number(candidates.corepower),
    }


def _estimate(tasks: WorkTable, candidates: QueueTable, facts: JobFacts, dynamic_events: Floats) -> Floats:
    hs06 = estimates.is_hs06(tasks.cputimeunit)
    parts = np.where(facts.event_service, estimates.event_service_divisor(tasks.es_consumers, tasks.es_attempts), 1.0)
    cpu = estimates.cputime_hs06s(tasks.cputime, tasks.cputimeunit) / parts
    base = np.where(hs06, estimates.base_walltime_s(tasks.basewalltime), 0.0)
    demand = np.where(
        hs06,
        estimates.cpu_demand_hs06s(cpu, tasks.atom_events, tasks.cpuefficiency),
        tasks.walltime * tasks.atom_mb / parts,
    )
    rate = _rate(hs06, candidates)
    dynamic = hs06 & (tasks.dynamic_num_events > 0)
    if dynamic.any():
        chosen = estimates.cpu_demand_hs06s(cpu, dynamic_events, tasks.cpuefficiency)
        at_limited = np.where(dynamic, chosen, demand)
        # by (T, 2) and the column for each queue: a choice for each pair takes several times as long
        demand = np.concatenate([demand, at_limited], axis=1)[:, (candidates.mintime_s[0] > 0).astype(np.int64)]
    estimate = np.divide(demand, rate)
    estimate += base
    return estimate


def _rate(hs06: Bools, candidates: QueueTable) -> Floats:
    of_slot = estimates.cpu_rate_hs06(candidates.cores, candidates.corepower)
    if hs06.all():
        return of_slot
    return rows_of_two(hs06, of_slot, estimates.or_else(candidates.cores, 1.0))
