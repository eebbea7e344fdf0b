"""The need of a job compared with the capacity of a queue in HS06 s, as an alternative to an estimate in seconds.

Capacity: ``(limit - base) x cores x core power x efficiency``, cut to whole numbers, if the task states CPU time in
HS06 s per event; ``limit x cores`` otherwise. A factor of 0 makes it 0, except that 0 cores count as 1 and a base of 0
subtracts nothing.
Source: PanDA production brokerage, walltime.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain import estimates
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Floats, Options

#: The need of jobs of unknown length for each core of a queue. Source: PanDA production brokerage, 24 hours.
DAY_HS06S = 24 * 3600.0 * 10.0


class WalltimeOptions(Options):
    """How the time limits of queues are compared.

    Attributes:
        compare: the expected walltime with the limit, in seconds; or what the job needs with the capacity of the queue,
            in HS06 s.
        merging: whether merge chunks are compared, by the figures of their task.
    """

    compare: Literal["walltime", "capacity"] = "walltime"
    merging: bool = False

    @property
    def by_capacity(self) -> bool:
        """Whether capacities are compared."""
        return self.compare == "capacity"


def capacity(tasks: WorkTable, candidates: QueueTable, limit_s: Floats) -> Floats:
    """(T, Q): the capacity of a slot up to a time limit (1, Q); 0 without a limit and base time."""
    hs06 = estimates.is_hs06(tasks.cputimeunit)
    base = np.where(hs06, np.nan_to_num(tasks.basewalltime), 0.0)
    left = np.nan_to_num(limit_s) - base
    cores = np.where(np.nan_to_num(candidates.cores) == 0, 1.0, candidates.cores)
    slot = left * cores
    scaled = slot * np.nan_to_num(candidates.corepower) * np.nan_to_num(tasks.cpuefficiency) / 100.0
    return np.where(hs06, np.trunc(scaled), slot)


def demand(tasks: WorkTable, facts: JobFacts) -> Floats:
    """(T, 1): the need of the smallest job; NaN if the task does not state it."""
    hs06 = estimates.is_hs06(tasks.cputimeunit)
    parts = np.where(facts.event_service, estimates.event_service_divisor(tasks.es_consumers, tasks.es_attempts), 1.0)
    cpu = estimates.cputime_hs06s(tasks.cputime, tasks.cputimeunit) * tasks.atom_events
    return np.asarray(np.where(hs06, cpu, tasks.walltime * tasks.atom_mb) / parts)


def dynamic_demands(tasks: WorkTable) -> tuple[Floats, Floats]:
    """(T, 1) twice: the need of the smallest and the largest job with a dynamic number of events; NaN without one."""
    cpu = estimates.cputime_hs06s(tasks.cputime, tasks.cputimeunit)
    cpu = np.where(tasks.dynamic_num_events > 0, cpu, np.nan)
    allowed = np.where(tasks.max_events_per_job > 0, tasks.max_events_per_job, np.inf)
    run = np.minimum(np.nan_to_num(tasks.longest_run_events), allowed)
    return cpu * tasks.dynamic_num_events, cpu * run


def exceeds(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Bools:
    """(T, Q): the job is too long for the queue; a queue without a longest time takes everything."""
    limited = np.nan_to_num(candidates.maxtime_s) != 0
    room = capacity(tasks, candidates, candidates.maxtime_s)
    needed = least_demand(tasks, candidates, facts)
    return np.asarray(limited & (needed > 0) & (needed > room))


def least_demand(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    """(T, Q): the least need of the job; at a queue with ``mintime``, that of the granularity if there is one."""
    smallest, _ = dynamic_demands(tasks)
    by_granularity = (smallest > 0) & (candidates.mintime_s > 0)
    return np.where(by_granularity, smallest, demand(tasks, facts))


def most_demand(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    """(T, Q): the largest need of the job; with a granularity and ``mintime``, that of the largest job it allows."""
    smallest, largest = dynamic_demands(tasks)
    by_granularity = (smallest > 0) & (candidates.mintime_s > 0)
    return np.where(by_granularity, np.fmax(smallest, largest), demand(tasks, facts))


def falls_short(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Bools:
    """(T, Q): the queue has a shortest time, and the job is too short for it or of unknown length."""
    limited = np.nan_to_num(candidates.mintime_s) != 0
    least = capacity(tasks, candidates, candidates.mintime_s)
    return np.asarray(limited & ~(most_demand(tasks, candidates, facts) >= least))


def under_a_day(tasks: WorkTable, candidates: QueueTable) -> Bools:
    """(T, Q): the capacity is less than a day of 10 HS06 for each core; a capacity of 0 is not."""
    room = capacity(tasks, candidates, candidates.maxtime_s)
    return np.asarray((room != 0) & (room < day_of(candidates)))


def day_of(candidates: QueueTable) -> Floats:
    """(1, Q): a day of 10 HS06 for each core, in HS06 s."""
    return DAY_HS06S * np.where(np.nan_to_num(candidates.cores) == 0, 1.0, candidates.cores)
