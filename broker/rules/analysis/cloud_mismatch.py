"""A task can be bound to a cloud."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import text

PROVENANCE = "ATLAS Analysis Job Brokerage"
#: WORLD is how PanDA calls all clouds together.
ANY_CLOUD = ("", "any", "WORLD")


class CloudMismatch(Filter):
    """The queue is of the cloud of the task.

    Rejects queues of another cloud than the task's.

    Source: PanDA analysis brokerage, filters.
    """

    name = "cloud_mismatch"
    code = "cloudmismatch"
    title = "The queue is of the cloud of the task"
    sources = ("queues",)
    provenance = PROVENANCE

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of tasks that are bound to a cloud."""
        bound = [[cloud is not None and cloud not in ANY_CLOUD] for cloud in tasks.cloud[:, 0]]
        return np.array(bound, dtype=np.bool_).reshape(-1, 1)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(of_analysis(facts).cloud_of_queue == tasks.cloud)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The cloud of the queue."""
        return Observation(text(of_analysis(facts).cloud_of_queue), "==", text(tasks.cloud), "-", "task.cloud")
