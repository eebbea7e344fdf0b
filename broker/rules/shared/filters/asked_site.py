"""Jobs run only at the sites that they request, and not at sites that they ban."""

from __future__ import annotations

from broker.domain.arrays import holds_of
from broker.domain.work import UNCONSTRAINED, PlacementConstraints
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason


class AskedSite(Filter[JobPairs]):
    """Keeps queues with a place (Site/CE/queue) at a site that the jobs request and do not ban.

    A queue without known places counts by its own site. Source: DIRAC RFC 7, keywords Site and BannedSite.
    """

    name = "asked_site"
    reason = Reason(
        code="asked_site",
        title="The queue is at a site that the jobs ask for, and at none that they ban",
        violation="The queue is at none of the sites that the jobs ask for, or at one that they ban",
        no_candidate="is among those that the task names",
        who="you",
        cure="Submit without the sites (`Site`, `BannedSite`), or with others.",
    )
    kind = "persistent"
    sources = ("pools",)
    provenance = "DIRAC RFC 7, Job Requirements"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that name sites."""
        return holds_of(pairs.chunks.placement_constraints, lambda one: bool(one.sites or one.banned))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is at a site that the jobs request, and at none that they ban."""
        return pairs.facts.site_admitted

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether a place of the queue is at such a site."""
        constraints: PlacementConstraints = pairs.chunks.placement_constraints.item() or UNCONSTRAINED
        inputs = {"sites": ", ".join(constraints.sites) or "any", "banned": ", ".join(constraints.banned) or "none"}
        return Observation(bool(pairs.facts.site_admitted.item()), "==", True, "-", "task.site", {**inputs})
