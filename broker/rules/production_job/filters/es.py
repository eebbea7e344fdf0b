"""Event service jobs need queues that take them."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text


class Es(Filter[JobPairs]):
    """Rejects queues whose ``jobseed`` is ``std`` or NULL for event service without job cloning.

    Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "es"
    reason = Reason(
        code="es",
        title="The queue takes event service jobs",
        violation="The queue takes no event service jobs",
        no_candidate="takes event service jobs",
        who="you",
        cure="Submit the task without event service, or operators give queues another `jobseed`.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks of event service, unless exactly one queue is pre-assigned."""
        return np.asarray(pairs.facts.event_service & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where ``jobseed`` is not ``std``; NULL counts as ``std``."""
        return np.asarray((pairs.candidates.jobseed != "std") & (pairs.candidates.jobseed != np.array(None)))

    def observe(self, pairs: JobPairs) -> Observation:
        """The job seed of the queue."""
        return Observation(text(pairs.candidates.jobseed) or "std", "!=", "std", "-", "queue.jobseed")
