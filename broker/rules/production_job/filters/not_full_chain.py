"""Queues of bare nuclei for full chains take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.queues import BARE_ONLY
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag
from broker.rules.production_job.link_options import stays_at_bare_nucleus


class NotFullChain(Filter[JobPairs]):
    """Rejects queues with ``bareNucleus=only``, except for full-chain tasks on a bare nucleus.

    Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "not_full_chain"
    reason = Reason(
        code="not_full_chain",
        title="The queue is not kept for full chains",
        violation="The queue is kept for full chains",
        no_candidate="takes work that is of no full chain",
        who="ask",
        cure="Other queues take the jobs. Where there are none, operators change `bareNucleus` of the queue.",
    )
    sources = ("queues",)
    provenance = "Special Brokerage for ATLAS Full-chain"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are not bound to a bare nucleus."""
        return np.asarray(~stays_at_bare_nucleus(pairs.chunks, pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue is not kept for full chains."""
        return np.asarray(pairs.candidates.bare_nucleus != BARE_ONLY)

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue takes only full chains."""
        only = not flag(self.keep(pairs))
        return Observation(only, "==", False, "-", "queue.bareNucleus")
