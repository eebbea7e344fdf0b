"""How many cores the jobs of a chunk use, and on which kind of queue they may run.

Source: ATLAS Production Job Brokerage, CPU core count.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable, is_boosted


def task_cores(tasks: WorkTable) -> Floats:
    """(T, 1): requested cores; those for merging if the chunk is merged and they are set. 0 is any number."""
    merged = tasks.merging & ~np.isnan(tasks.mergecorecount)
    return np.where(merged, tasks.mergecorecount, tasks.corecount)


def takes_multi_core(tasks: WorkTable) -> Bools:
    """(T, 1): may run on multi-core queues: more than one core requested, or any number."""
    cores = task_cores(tasks)
    return np.asarray((cores > 1) | (cores == 0))


def takes_single_core(tasks: WorkTable) -> Bools:
    """(T, 1): may run on single-core queues: at most one core requested, or any number if the chunk may wait."""
    cores = task_cores(tasks)
    return np.asarray(~(cores > 1) & ~((cores == 0) & is_boosted(tasks)))


def is_multi_core(candidates: QueueTable) -> Bools:
    """(1, Q): the queue has several cores; an unset number, 0 and 1 count as one core."""
    cores = candidates.cores
    return np.asarray(~(np.isnan(cores) | (cores == 0) | (cores == 1)))
