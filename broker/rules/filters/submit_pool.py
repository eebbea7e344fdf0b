"""Jobs with requirements go only to queues that meet them."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.asked_places import parse_asked_places
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView


class SubmitPool(Filter):
    """Keeps queues with a place (Site/CE/queue) that is eligible for the SubmitPool of the chunk's jobs.

    The place is at a site that the jobs ask for, where they ask for any. Holds for pre-assigned queues too: a job must
    not run where a requirement fails. While the mapping is not refreshed, nobody knows, and such chunks wait. Source:
    DIRAC RFC 7, Job Requirements.
    """

    name = "submit_pool"
    code = "submit_pool"
    title = "The queue meets the requirements of the jobs"
    kind = "persistent"
    sources = ("pools",)
    provenance = "DIRAC RFC 7, Job Requirements"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks with requirements."""
        return np.array([[parse_asked_places(text).pool is not None] for text in tasks.asked_places[:, 0]])

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return facts.pool_admitted

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether a place of the queue is eligible for the pool."""
        pool = parse_asked_places(tasks.asked_places.item()).pool
        return Observation(bool(facts.pool_admitted.item()), "==", True, "-", "task.submit_pool", {"pool": pool})
