"""A task may name the site of its queues in its parameters."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import holds_of_texts
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text


class PandaSite(Filter[JobPairs]):
    """Keeps queues of the site that the task parameter ``PandaSite`` names. Source: PanDA JEDI, GenJobBroker."""

    name = "panda_site"
    reason = Reason(
        code="panda_site",
        title="The queue is of the site that the task names",
        violation="The queue is of another site than the task names",
        no_candidate="is of the site that the task names",
        who="you",
        cure="Submit without `PandaSite` in the parameters of the task, or with the site of the queue.",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks that name a site."""
        return holds_of_texts(pairs.chunks.panda_site, bool)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is of that site; a queue without a site never matches."""
        return np.asarray(pairs.candidates.atlas_site == pairs.chunks.panda_site, dtype=np.bool_)

    def observe(self, pairs: JobPairs) -> Observation:
        """The site of the queue."""
        requested = text(pairs.chunks.panda_site)
        return Observation(text(pairs.candidates.atlas_site), "==", requested, "-", "task.parameters.PandaSite")
