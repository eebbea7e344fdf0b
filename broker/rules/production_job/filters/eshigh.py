"""Queues for urgent event service take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text


class Eshigh(Filter[JobPairs]):
    """Rejects queues whose ``jobseed`` is ``eshigh`` for event service that is neither of high priority nor scouts.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "eshigh"
    reason = Reason(
        code="eshigh",
        title="The queue does not wait for urgent event service only",
        violation="The queue waits for urgent event service only",
        no_candidate="takes event service of ordinary priority",
        who="wait",
        cure="Wait for other queues. Operators may raise the priority of the task, or change the `jobseed` of the "
        "queue.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Event service chunks that can wait."""
        return np.asarray(pairs.facts.event_service & ~pairs.facts.es_high & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue is not kept for urgent event service."""
        return np.asarray(pairs.candidates.jobseed != "eshigh")

    def observe(self, pairs: JobPairs) -> Observation:
        """The job seed of the queue."""
        return Observation(text(pairs.candidates.jobseed) or "std", "!=", "eshigh", "-", "queue.jobseed")
