"""Queues for event service take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs
from broker.rules.shared.observing import text
from broker.rules.shared.preassigned import not_single


class Nones(Filter[JobPairs]):
    """Rejects queues whose ``jobseed`` is ``es`` for other than event service.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "nones"
    code = "nones"
    title = "The queue takes jobs that are no event service"
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are no event service."""
        return np.asarray(~pairs.facts.event_service & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue takes jobs that are no event service."""
        return np.asarray(pairs.candidates.jobseed != "es")

    def observe(self, pairs: JobPairs) -> Observation:
        """The job seed of the queue."""
        return Observation(text(pairs.candidates.jobseed) or "std", "!=", "es", "-", "queue.jobseed")
