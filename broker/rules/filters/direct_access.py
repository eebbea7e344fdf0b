"""Tasks that read only directly from storage need queues that can."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.estimates import LAN_INPUT_ONLY
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, number

ALWAYS_DIRECT = -1.0


class DirectAccess(Filter):
    """Rejects queues without direct access over LAN for tasks that allow nothing else (split rule ``IL=2``).

    A queue with ``maxinputsize`` -1 always reads directly. Not for merging. Source: ATLAS Production Job Brokerage,
    direct access.
    """

    name = "direct_access"
    code = "remoteio"
    title = "The queue reads input directly from storage, for tasks that need it"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of tasks that only read directly."""
        return np.asarray((tasks.allow_input_lan == LAN_INPUT_ONLY) & ~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(candidates.direct_access_lan | (candidates.maxinputsize_mb == ALWAYS_DIRECT))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue reads directly."""
        able = flag(self.keep(tasks, candidates, facts, tuning))
        inputs: dict[str, Value] = {"maxinputsize_mb": number(candidates.maxinputsize_mb)}
        return Observation(able, "==", True, "-", "queue.direct_access_lan", inputs)
