"""Jobs with requirements go only to queues that meet them."""

from __future__ import annotations

from broker.domain.arrays import holds_of
from broker.domain.work import UNCONSTRAINED, PlacementConstraints
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason


class SubmitPool(Filter[JobPairs]):
    """Keeps queues with a place (Site/CE/queue) that is eligible for the SubmitPool of the chunk's jobs.

    If the jobs request sites, the place must be at one of them. Applies to pre-assigned queues too: a job must not run
    where a requirement fails. While the mapping is not refreshed, the result is unknown and such chunks wait. Source:
    DIRAC RFC 7, Job Requirements.
    """

    name = "submit_pool"
    reason = Reason(
        code="submit_pool",
        title="The queue meets the requirements of the jobs",
        violation="The queue does not meet the requirements of the jobs",
        no_candidate="is in the SubmitPool of the task",
        who="you",
        cure="Ask for less: `broker pool show POOL` says which requirements there are, and which queues meet them.",
    )
    kind = "persistent"
    sources = ("pools",)
    provenance = "DIRAC RFC 7, Job Requirements"

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks whose jobs require a SubmitPool."""
        return holds_of(pairs.chunks.placement_constraints, lambda one: one.pool is not None)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue meets the requirements of the jobs."""
        return pairs.facts.pool_admitted

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether a place of the queue is eligible for the pool."""
        constraints: PlacementConstraints = pairs.chunks.placement_constraints.item() or UNCONSTRAINED
        pool = constraints.pool
        return Observation(bool(pairs.facts.pool_admitted.item()), "==", True, "-", "task.submit_pool", {"pool": pool})
