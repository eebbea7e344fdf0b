"""Queues for event service take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text


class Nones(Filter[JobPairs]):
    """Rejects queues whose ``jobseed`` is ``es`` for work other than event service.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "nones"
    reason = Reason(
        code="nones",
        title="The queue takes jobs that are no event service",
        violation="The queue takes event service jobs only",
        no_candidate="takes other jobs than event service",
        who="ask",
        cure="Other queues take the jobs. Where there are none, operators change the `jobseed` of the queue.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks other than event service."""
        return np.asarray(~pairs.facts.event_service & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue takes jobs other than event service."""
        return np.asarray(pairs.candidates.jobseed != "es")

    def observe(self, pairs: JobPairs) -> Observation:
        """The job seed of the queue."""
        return Observation(text(pairs.candidates.jobseed) or "std", "!=", "es", "-", "queue.jobseed")
