"""Event service needs queues that take it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import text
from broker.rules.preassigned import not_single


class Es(Filter):
    """Rejects queues whose ``jobseed`` is ``std`` or NULL for event service without job cloning.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "es"
    code = "es"
    title = "The queue takes event service jobs"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Event service chunks."""
        return np.asarray(facts.event_service & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q); NULL is ``std``."""
        return np.asarray((candidates.jobseed != "std") & (candidates.jobseed != np.array(None)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The job seed of the queue."""
        return Observation(text(candidates.jobseed) or "std", "!=", "std", "-", "queue.jobseed")
