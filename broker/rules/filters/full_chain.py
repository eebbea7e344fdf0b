"""A full chain stays at its bare nucleus."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.bare_nucleus import stays_at_bare_nucleus
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag


class FullChain(Filter):
    """Keeps only queues at the nucleus for full-chain tasks (split rule ``FU``) on a bare nucleus.

    Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "full_chain"
    code = "full_chain"
    title = "The queue is at the nucleus, for full chains on a bare nucleus"
    sources = ("queues",)
    provenance = "Special Brokerage for ATLAS Full-chain"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of full-chain tasks on a bare nucleus."""
        return stays_at_bare_nucleus(tasks, facts)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return facts.at_nucleus

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue is at the nucleus."""
        return Observation(flag(facts.at_nucleus), "==", True, "-", "task.splitrule.FU")
