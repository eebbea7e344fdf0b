"""The queue must be online."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, text

PROVENANCE = "ATLAS Analysis Job Brokerage"
ONLINE, OFFLINE = "online", "offline"


class OpenQueue(Filter):
    """The queue is online, or named by the task and not offline.

    Rejects queues that are not online. Queues that the task names may be in another state, but not offline.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "open_queue"
    code = "status"
    title = "The queue is online, or named by the task and not offline"
    sources = ("queues",)
    provenance = PROVENANCE

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray((candidates.status == ONLINE) | (of_analysis(facts).named & (candidates.status != OFFLINE)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The status."""
        status = text(candidates.status)
        if flag(of_analysis(facts).named):
            return Observation(status, "!=", OFFLINE, "-", "queue.status", {"named": True})
        return Observation(status, "==", ONLINE, "-", "queue.status", {"named": False})
