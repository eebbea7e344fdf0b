"""No queue gets more work while very many jobs of all shares wait there."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs, Reason

LIMIT_JOBS = 5000.0


class MaxQueuedHere(Filter[JobPairs]):
    """Rejects queues with more than 5000 activated jobs, for all but urgent chunks.

    Source: agreement of the example collaboration with its sites.
    """

    name = "max_queued_here"
    reason = Reason(
        code="too_many_queued",
        title="Not more than 5000 jobs wait at the queue",
        violation="More than 5000 jobs wait at the queue",
        no_candidate="has few enough waiting jobs",
        who="wait",
        cure="Wait until jobs have started at the queue. Urgent chunks go there meanwhile.",
    )
    kind = "temporary"
    sources = ("jobs",)
    unknown_policy = "keep"
    provenance = "Example collaboration"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are not urgent."""
        return np.asarray(~pairs.facts.urgent)

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q)."""
        return np.asarray(pairs.facts.all_activated <= LIMIT_JOBS)

    def observe(self, pairs: JobPairs) -> Observation:
        """Activated jobs."""
        return Observation(float(pairs.facts.all_activated.item()), "<=", LIMIT_JOBS, "jobs", "rule")
