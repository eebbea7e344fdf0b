"""Jobs that a queue could run on top of its running ones, by the most cores that ran there within weeks.

Cores that can run but do not are free. They go to the first comer, so each share may count all of them.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.queue_capacity import QueueSums
from broker.gdpconfig import Tuning
from broker.rules.contract import Value
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY, LearnedCapacity

AS_RUNNING, PRIOR = "LEARNED_CAPACITY_AS_RUNNING", "LEARNED_CAPACITY_PRIOR"


def learned_free_jobs(snapshot: Snapshot, tuning: Tuning) -> Floats | None:
    """(Q,) whole jobs that fit on the free cores of each candidate; None if free cores do not count.

    They do not count without the key, or while the record of queues is missing or too old.
    """
    known: LearnedCapacity = snapshot.offered.get(QUEUE_CAPACITY) or {}
    if not known or not tuning.flag(AS_RUNNING) or snapshot.unusable((QUEUE_CAPACITY,)):
        return None
    prior_h, queues = tuning.number(PRIOR), snapshot.queues
    running = running_cores(snapshot)
    names = zip(snapshot.unified.name.tolist(), running.tolist(), strict=True)
    free = np.array([known.get(str(name), QueueSums()).cores(now, prior_h) - now for name, now in names])
    return np.asarray(np.floor(free[queues.unified] / np.maximum(np.nan_to_num(queues.cores, nan=1.0), 1.0)))


def learned_evidence(snapshot: Snapshot, free: Floats | None, position: int) -> dict[str, Value]:
    """The figures behind a candidate's free jobs (Q,), for its explanation; empty where none count."""
    if free is None or not free[position]:
        return {}
    known: LearnedCapacity = snapshot.offered.get(QUEUE_CAPACITY) or {}
    sums = known[str(snapshot.queues.unified_name[position])]
    return {
        "learned_free_jobs": float(free[position]),
        "learned_most_cores": sums.most_cores,
        "learned_hours": sums.hours,
    }


def running_cores(snapshot: Snapshot) -> Floats:
    """(U,) cores of all running jobs at each unified queue."""
    cores = snapshot.jobs.running_cores
    return cores.sum(axis=1) if cores.size else np.zeros(len(snapshot.unified))
