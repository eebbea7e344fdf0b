"""The queue must be online."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import text
from broker.rules.preassigned import not_preassigned

ONLINE = "online"


class Status(Filter):
    """Keeps queues whose status is ``online``. Pre-assigned queues are not asked.

    Source: ATLAS Production Job Brokerage, queue status.
    """

    name = "status"
    code = "status"
    title = "The queue is online"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that were not given their queues."""
        return not_preassigned(facts)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q); NULL is not online."""
        return np.asarray(candidates.status == ONLINE)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The status."""
        return Observation(text(candidates.status), "==", ONLINE, "-", "queue.status")
