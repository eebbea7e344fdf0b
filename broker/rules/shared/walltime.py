"""Expected walltime of the smallest job of a chunk at each queue.

``cpuTime x events / (cores x core power x efficiency) + base`` if the task states CPU time in HS06 s per event;
otherwise walltime per MB x MB of input / cores. Merging is not estimated, because the figures of the task do not apply
to merge jobs. Source: ATLAS Production Job Brokerage, estimated walltime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import columns_at
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Floats, Value, number

ONE_DAY_S = 24 * 3600.0


@dataclass(frozen=True)
class Walltime:
    """The expected walltime of the smallest job of each chunk, independent of the queue, as columns (T, 1).

    Attributes:
        by_hs06: whether the task states CPU time in HS06 s per event.
        demand: HS06 s, or else s on one core, that the job needs; NaN where undefined.
        demand_at_limited: the same at a queue with a shortest time.
        base_s: additional time, independent of the queue.
    """

    by_hs06: Bools
    demand: Floats
    demand_at_limited: Floats
    base_s: Floats

    def at(self, candidates: QueueTable) -> Floats:
        """(T, Q): the walltime in seconds; NaN where undefined."""
        of_slot, of_cores = _rates(candidates)
        demand = np.where(candidates.mintime_s > 0, self.demand_at_limited, self.demand)
        return np.asarray(demand / np.where(self.by_hs06, of_slot, of_cores) + self.base_s)

    def compared(self, candidates: QueueTable, limit_s: Floats, holds: np.ufunc) -> Bools:
        """(T, Q): whether a comparison of :meth:`at` with a limit (1, Q) holds.

        Chunks whose time is stated in the same way are compared together, then the few queues with a shortest time:
        selecting between two figures for each pair takes several times as long as dividing.
        """
        result = np.empty((len(self.demand), limit_s.shape[1]), dtype=np.bool_)
        for selected, rate in zip((self.by_hs06[:, 0], ~self.by_hs06[:, 0]), _rates(candidates), strict=True):
            rows = np.flatnonzero(selected)
            walltime_s = self.demand[rows] / rate
            walltime_s += self.base_s[rows]
            result[rows] = holds(walltime_s, limit_s)
        at = np.flatnonzero(candidates.mintime_s > 0)
        if len(at) and self.demand_at_limited is not self.demand:
            result[:, at] = holds(self.at(columns_at(candidates, at)), limit_s[:, at])
        return result


def longest_walltime(tasks: WorkTable, facts: JobFacts) -> Walltime:
    """The walltime that must not exceed the queue's ``maxtime``.

    With a dynamic number of events, a queue with a shortest time gets at least the granularity, not the whole file.
    """
    return _walltime(tasks, facts, tasks.dynamic_num_events)


def reachable_walltime(tasks: WorkTable, facts: JobFacts) -> Walltime:
    """The walltime that must reach the queue's ``mintime``.

    With a dynamic number of events, jobs can grow to the longest run of consecutive events and the events allowed per
    job.
    """
    allowed = np.where(tasks.max_events_per_job > 0, tasks.max_events_per_job, np.inf)
    run = np.minimum(np.nan_to_num(tasks.longest_run_events), allowed)
    return _walltime(tasks, facts, np.maximum(tasks.dynamic_num_events, run))


def has_short_limit(candidates: QueueTable) -> Bools:
    """(1, Q): the longest time of the queue is set and less than a day."""
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


def _walltime(tasks: WorkTable, facts: JobFacts, dynamic_events: Floats) -> Walltime:
    hs06, cpu = estimates.is_hs06(tasks.cputimeunit), estimates.cputime_hs06s(tasks.cputime, tasks.cputimeunit)
    walltime = tasks.walltime * tasks.atom_mb
    if facts.event_service.any():
        divisor = estimates.event_service_divisor(tasks.es_consumers, tasks.es_attempts)
        parts = np.where(facts.event_service, divisor, 1.0)
        cpu, walltime = cpu / parts, walltime / parts
    needed = estimates.cpu_demand_hs06s(cpu, tasks.atom_events, tasks.cpuefficiency)
    demand = at_limited = np.where(hs06, needed, walltime)
    dynamic = hs06 & (tasks.dynamic_num_events > 0)
    if dynamic.any():
        chosen = estimates.cpu_demand_hs06s(cpu, dynamic_events, tasks.cpuefficiency)
        at_limited = np.where(dynamic, chosen, demand)
    return Walltime(hs06, demand, at_limited, np.where(hs06, estimates.base_walltime_s(tasks.basewalltime), 0.0))


def _rates(candidates: QueueTable) -> tuple[Floats, Floats]:
    """(1, Q) twice: HS06 of a slot, and its cores."""
    cores = estimates.or_else(candidates.cores, 1.0)
    return estimates.cpu_rate_hs06(candidates.cores, candidates.corepower), cores
