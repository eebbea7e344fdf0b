"""The queue must not have more cores than the task can use."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number


class MaxCoreCount(Filter[JobPairs]):
    """Rejects queues with more cores than the split rule ``CC`` of the task. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, CPU core count (maxCoreCount).
    """

    name = "max_core_count"
    same_in_passes = True
    reason = Reason(
        code="max_cpucore",
        title="The queue has no more cores than the task can use",
        violation="The queue has more cores than the task can use",
        no_candidate="has as few cores as the task allows",
        who="you",
        cure="Allow more cores (`maxCoreCount` of the task).",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks with a largest core count."""
        return np.asarray((pairs.chunks.max_core_count > 0) & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue has no more cores than allowed; NULL and 0 are not compared."""
        return np.asarray(~(pairs.candidates.cores > pairs.chunks.max_core_count))

    def observe(self, pairs: JobPairs) -> Observation:
        """The cores of the queue."""
        cores = number(pairs.candidates.cores) or 0.0
        return Observation(cores, "<=", number(pairs.chunks.max_core_count), "cores", "task.splitrule.CC")
