"""Work taken back from a queue is not sent straight back to it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import holds_of
from broker.domain.facts import not_preassigned
from broker.domain.work import RebrokeredFrom
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason

KEY = "REASSIGN_MEMORY"


class Rebrokered(Filter[JobPairs]):
    """Rejects queues from which jobs of the chunk's dataset were taken back within REASSIGN_MEMORY hours.

    With 0 hours the queue may be used again at once. Not for pre-assigned queues, which have no alternative. Source:
    this broker; PanDA remembers the queues of closed jobs for analysis only, by their number (``bad_jobs``).
    """

    name = "rebrokered"
    reason = Reason(
        code="rebrokered",
        title="No jobs of the same dataset were taken back from the queue recently",
        violation="Jobs of the same dataset were taken back from the queue recently",
        no_candidate="has not just lost jobs of this dataset",
        who="wait",
        cure="Wait: other queues come first, and this one may have the jobs again after `REASSIGN_MEMORY` hours.",
    )
    kind = "temporary"
    temporary_issue = True
    keys = (KEY,)
    provenance = "Timeouts of jobs, rebrokerage"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks from which jobs were taken back."""
        remembered = holds_of(pairs.chunks.rebrokered_from, lambda _: True)
        return np.asarray(remembered & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where no jobs of the same dataset were recently taken back from the queue."""
        since_s = pairs.facts.now_s - 3600.0 * pairs.tuning.number(KEY)
        remembered = pairs.chunks.rebrokered_from[:, 0]
        result = np.ones((len(remembered), pairs.candidates.name.shape[1]), dtype=np.bool_)
        for row, history in enumerate(remembered):
            recent = [] if history is None else history.since(since_s)
            if recent:
                result[row] = ~np.isin(pairs.candidates.unified_name[0], recent)
        return result

    def observe(self, pairs: JobPairs) -> Observation:
        """Hours since jobs were last taken back; True if none were."""
        history: RebrokeredFrom | None = pairs.chunks.rebrokered_from.item()
        taken_back_s = None if history is None else history.last_s(str(pairs.candidates.unified_name.item()))
        limit_h = pairs.tuning.number(KEY)
        if taken_back_s is None:
            return Observation(True, "==", True, "-", KEY, {"hours": limit_h})
        hours = (pairs.facts.now_s - taken_back_s) / 3600.0
        return Observation(hours, ">=", limit_h, "h", KEY, {"taken_back_s": taken_back_s})
