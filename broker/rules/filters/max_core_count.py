"""The queue must not have more cores than the task can use."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number
from broker.rules.preassigned import not_single


class MaxCoreCount(Filter):
    """Rejects queues with more cores than the split rule ``CC`` of the task. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, CPU core count (maxCoreCount).
    """

    name = "max_core_count"
    code = "max_cpucore"
    title = "The queue has no more cores than the task can use"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of tasks with a largest core count."""
        return np.asarray((tasks.max_core_count > 0) & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q); cores that are NULL or 0 are not compared."""
        return np.asarray(~(candidates.cores > tasks.max_core_count))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The cores of the queue."""
        cores = number(candidates.cores) or 0.0
        return Observation(cores, "<=", number(tasks.max_core_count), "cores", "task.splitrule.CC")
