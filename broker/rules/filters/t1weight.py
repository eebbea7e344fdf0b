"""Tasks can ask for the nucleus alone."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag

NUCLEUS_ONLY = -1.0


class T1weight(Filter):
    """Keeps only queues at the nucleus for tasks whose t1Weight (split rule ``TW``) is -1. Not for merging.

    Other negative values have no effect. Source: ATLAS Production Job Brokerage, t1Weight.
    """

    name = "t1weight"
    code = "t1weight"
    title = "The queue is at the nucleus, for tasks with t1Weight -1"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of tasks with t1Weight -1 that are not merged."""
        return np.asarray((tasks.t1weight == NUCLEUS_ONLY) & ~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return facts.at_nucleus

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue is at the nucleus."""
        return Observation(flag(facts.at_nucleus), "==", True, "-", "task.splitrule.TW")
