"""Queues for event service take nothing else."""

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


class Nones(Filter):
    """Rejects queues whose ``jobseed`` is ``es`` for other than event service.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "nones"
    code = "nones"
    title = "The queue takes jobs that are no event service"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are no event service."""
        return np.asarray(~facts.event_service & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(candidates.jobseed != "es")

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The job seed of the queue."""
        return Observation(text(candidates.jobseed) or "std", "!=", "es", "-", "queue.jobseed")
