"""Bare nuclei that take only full chains take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import BARE_ONLY, QueueTable
from broker.domain.work import WorkTable
from broker.rules.bare_nucleus import stays_at_bare_nucleus
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag


class NotFullChain(Filter):
    """Rejects queues with ``bareNucleus=only``, but for full-chain tasks on a bare nucleus.

    Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "not_full_chain"
    code = "not_full_chain"
    title = "The queue is not kept for full chains"
    sources = ("queues",)
    provenance = "Special Brokerage for ATLAS Full-chain"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are not bound to a bare nucleus."""
        return np.asarray(~stays_at_bare_nucleus(tasks, facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(candidates.bare_nucleus != BARE_ONLY)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue takes only full chains."""
        only = not flag(self.keep(tasks, candidates, facts, tuning))
        return Observation(only, "==", False, "-", "queue.bareNucleus")
