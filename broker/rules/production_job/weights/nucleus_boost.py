"""Queues that need no transfer to the nucleus come first, for tasks that profit from it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import RowsByKind
from broker.domain.estimates import is_event_service
from broker.domain.facts import JobFacts, not_preassigned
from broker.domain.work import WorkTable, is_boosted
from broker.rules.contract import Floats, JobPairs, Weight

HIGH_IO_INTENSITY_KBPS = 500.0
IO_BOOST = 4.0
PRIORITY_BOOST = 100.0


class NucleusBoost(Weight[JobPairs]):
    """The larger of two boosts for queues at the nucleus or with its storage.

    One is t1Weight if it is positive; if it is 0, 4 for an IO intensity above 500 kB/s. The other is 100 for a priority
    of 900 and more and for scouts, but not for event service and pre-assigned queues. Source: PanDA production
    brokerage, nucleus boost.
    """

    name = "nucleus_boost"
    code = "nucleus_boost"
    title = "Prefers the nucleus for urgent chunks, high IO intensity and positive t1Weight"
    provenance = "PanDA production brokerage, nucleus boost"

    def factor(self, pairs: JobPairs) -> Floats | RowsByKind:
        """(T, Q): 1 and more, with all chunks without a boost as one kind; (T, 1) if none is boosted."""
        boost = _boost(pairs.chunks, pairs.facts)
        boosted = np.flatnonzero(boost[:, 0] > 1.0)
        if not len(boosted):
            return boost
        near = pairs.facts.rows("at_nucleus", boosted) | pairs.facts.rows("shares_storage", boosted)
        kind = np.zeros(len(boost), dtype=np.int64)
        kind[boosted] = np.arange(1, 1 + len(boosted))
        factors = np.where(near, boost[boosted], 1.0)
        return RowsByKind(np.concatenate([np.ones((1, near.shape[1])), factors]), kind)


def _boost(tasks: WorkTable, facts: JobFacts) -> Floats:
    intense = (tasks.t1weight == 0) & (tasks.iointensity > HIGH_IO_INTENSITY_KBPS)
    weighted = np.where(tasks.t1weight > 0, tasks.t1weight, np.where(intense, IO_BOOST, 1.0))
    urgent = is_boosted(tasks) & ~is_event_service(tasks.eventservice) & not_preassigned(facts)
    return np.asarray(np.maximum(weighted, np.where(urgent, PRIORITY_BOOST, 1.0)))
