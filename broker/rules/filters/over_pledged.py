"""While work is short, pledged queues get no more than they pledged."""

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


class OverPledged(Filter):
    """Rejects queues that run more cores than a positive ``pledgedcpu`` while WORK_SHORTAGE is true.

    Cores are those of running jobs of the VO and label of the task. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, WORK_SHORTAGE.
    """

    name = "over_pledged"
    code = "over_pledged"
    title = "The queue runs no more cores than pledged, while work is short"
    keys = (SHORTAGE,)
    sources = ("queues", "jobs")

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """All chunks without a single pre-assigned queue while work is short, none otherwise."""
        return np.asarray(not_single(facts) & tuning.flag(SHORTAGE))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q); a pledge of 0 or NULL is no limit."""
        pledge = np.where(candidates.pledgedcpu > 0, candidates.pledgedcpu, np.inf)
        return np.asarray(facts.running_cores <= pledge)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Running cores; no limit without a pledge."""
        pledge = number(candidates.pledgedcpu)
        limit = pledge if pledge is not None and pledge > 0 else None
        return Observation(number(facts.running_cores), "<=", limit, "cores", "queue.pledgedcpu")
