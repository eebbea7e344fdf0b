"""The storage of a queue must have space, if CRIC states it for the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.estimates import is_set
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, limit_number, number

LEAST_SPACE_GB = 200.0


class QueueSpace(Filter[JobPairs]):
    """Rejects queues with a ``space`` below 200 GB; 0 and NULL are not compared. Source: PanDA JEDI, GenJobBroker."""

    name = "queue_space"
    reason = Reason(
        code="queue_space",
        title="The storage of the queue has at least 200 GB left",
        violation="The storage of the queue has less than 200 GB left",
        no_candidate="has enough space on its storage",
        who="ask",
        cure="The site makes room, or the operators correct `space` of the queue in CRIC.",
        limit="queue.space",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): True where the candidate passes."""
        space = pairs.candidates.space_gb
        return np.asarray(~is_set(space) | (space >= LEAST_SPACE_GB))

    def observe(self, pairs: JobPairs) -> Observation:
        """The space that CRIC states; no limit if it states none."""
        space = pairs.candidates.space_gb
        limit = limit_number(np.where(is_set(space), LEAST_SPACE_GB, np.inf))
        return Observation(number(space), ">=", limit, "GB", "rule")
