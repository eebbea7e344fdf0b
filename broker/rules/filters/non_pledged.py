"""While work is short, opportunistic queues get none."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number
from broker.rules.preassigned import not_single

SHORTAGE = "WORK_SHORTAGE"
OPPORTUNISTIC = -1.0


class NonPledged(Filter):
    """Rejects queues with ``pledgedcpu`` -1 while WORK_SHORTAGE is true. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, WORK_SHORTAGE.
    """

    name = "non_pledged"
    code = "non_pledged"
    title = "The queue is pledged, while work is short"
    keys = (SHORTAGE,)
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """All chunks without a single pre-assigned queue while work is short, none otherwise."""
        return np.asarray(not_single(facts) & tuning.flag(SHORTAGE))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q); a pledge that is NULL is kept."""
        return np.asarray(candidates.pledgedcpu != OPPORTUNISTIC)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The pledge."""
        return Observation(number(candidates.pledgedcpu), "!=", OPPORTUNISTIC, "cores", "queue.pledgedcpu")
