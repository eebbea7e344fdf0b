"""Queues for urgent event service take nothing else."""

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


class Eshigh(Filter):
    """Rejects queues whose ``jobseed`` is ``eshigh`` for event service that is neither of high priority nor scouts.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "eshigh"
    code = "eshigh"
    title = "The queue does not wait for urgent event service only"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Event service chunks that can wait."""
        return np.asarray(facts.event_service & ~facts.es_high & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(candidates.jobseed != "eshigh")

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The job seed of the queue."""
        return Observation(text(candidates.jobseed) or "std", "!=", "eshigh", "-", "queue.jobseed")
