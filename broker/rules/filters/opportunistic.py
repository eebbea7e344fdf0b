"""Urgent chunks keep away from opportunistic queues."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number
from broker.rules.preassigned import not_preassigned
from broker.rules.urgency import is_selective

OPPORTUNISTIC = -1.0


class Opportunistic(Filter):
    """Rejects queues with ``pledgedcpu`` -1 for priority of 800 and more, and for scouts. Not for pre-assigned queues.

    Source: ATLAS Production Job Brokerage, opportunistic queues.
    """

    name = "opportunistic"
    code = "opportunistic"
    title = "The queue is not opportunistic, for high priority and scouts"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of high priority, and scouts."""
        return np.asarray(is_selective(tasks) & not_preassigned(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q); a pledge that is NULL is not opportunistic."""
        return np.asarray(candidates.pledgedcpu != OPPORTUNISTIC)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The pledge."""
        return Observation(number(candidates.pledgedcpu), "!=", OPPORTUNISTIC, "cores", "queue.pledgedcpu")
