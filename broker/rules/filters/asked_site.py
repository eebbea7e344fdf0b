"""Jobs that name sites go there, and not to sites that they ban."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.asked_places import parse_asked_places
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView


class AskedSite(Filter):
    """Keeps queues with a place (Site/CE/queue) at a site that the jobs ask for and do not ban.

    The site of a queue of which no places are known is its own. Source: DIRAC RFC 7, keywords Site and BannedSite.
    """

    name = "asked_site"
    code = "asked_site"
    title = "The queue is at a site that the jobs ask for, and at none that they ban"
    kind = "persistent"
    sources = ("pools",)
    provenance = "DIRAC RFC 7, Job Requirements"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that name sites."""
        asked = (parse_asked_places(text) for text in tasks.asked_places[:, 0])
        return np.array([[bool(one.sites or one.banned)] for one in asked])

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return facts.site_admitted

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether a place of the queue is at such a site."""
        asked = parse_asked_places(tasks.asked_places.item())
        inputs = {"sites": ", ".join(asked.sites) or "any", "banned": ", ".join(asked.banned) or "none"}
        return Observation(bool(facts.site_admitted.item()), "==", True, "-", "task.site", {**inputs})
