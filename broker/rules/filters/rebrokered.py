"""Work that was taken back from a queue is not sent straight back to it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.taken_back import parse_taken_back
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.preassigned import not_preassigned

KEY = "REASSIGN_MEMORY"


class Rebrokered(Filter):
    """Rejects queues from which jobs of the chunk's dataset were taken back within REASSIGN_MEMORY hours.

    0 hours: the queue may be taken again at once. Not for pre-assigned queues, which have no alternative. Source: this
    broker; PanDA remembers the queues of closed jobs for analysis only, by their number (``bad_jobs``).
    """

    name = "rebrokered"
    code = "rebrokered"
    title = "No jobs of the same dataset were taken back from the queue lately"
    kind = "temporary"
    keys = (KEY,)
    provenance = "Timeouts of jobs, rebrokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of which something was taken back."""
        remembered = np.array([[bool(text)] for text in tasks.taken_back[:, 0]], dtype=np.bool_)
        return np.asarray(remembered & not_preassigned(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        since_s = facts.now_s - 3600.0 * tuning.number(KEY)
        remembered = tasks.taken_back[:, 0]
        result = np.ones((len(remembered), candidates.name.shape[1]), dtype=np.bool_)
        for row, text in enumerate(remembered):
            recent = [queue for queue, at_s in parse_taken_back(text).items() if at_s > since_s]
            if recent:
                result[row] = ~np.isin(candidates.unified_name[0], recent)
        return result

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Hours since jobs were last taken back; nothing when none were."""
        at_s = parse_taken_back(tasks.taken_back.item()).get(str(candidates.unified_name.item()))
        limit_h = tuning.number(KEY)
        if at_s is None:
            return Observation(True, "==", True, "-", KEY, {"hours": limit_h})
        hours = (facts.now_s - at_s) / 3600.0
        return Observation(hours, ">=", limit_h, "h", KEY, {"taken_back_s": at_s})
