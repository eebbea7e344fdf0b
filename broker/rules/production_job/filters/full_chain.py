"""A full chain stays at its bare nucleus."""

from __future__ import annotations

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag
from broker.rules.production_job.link_options import stays_at_bare_nucleus


class FullChain(Filter[JobPairs]):
    """Keeps only queues at the nucleus for full-chain tasks (split rule ``FU``) on a bare nucleus.

    Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "full_chain"
    reason = Reason(
        code="full_chain",
        title="The queue is at the nucleus, for full chains on a bare nucleus",
        violation="The queue is not at the nucleus to which the full chain is bound",
        no_candidate="is at the nucleus, as the full chain requires",
        who="ask",
        cure="The task runs at the nucleus of its chain only: operators bring queues of that nucleus back.",
    )
    sources = ("queues",)
    provenance = "Special Brokerage for ATLAS Full-chain"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of full-chain tasks on a bare nucleus."""
        return stays_at_bare_nucleus(pairs.chunks, pairs.facts)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is at the nucleus, for full chains on a bare nucleus."""
        return pairs.facts.at_nucleus

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue is at the nucleus."""
        return Observation(flag(pairs.facts.at_nucleus), "==", True, "-", "task.splitrule.FU")
