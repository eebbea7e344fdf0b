"""Queues for jumbo jobs take nothing else."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag
from broker.rules.preassigned import not_single


class Jumbo(Filter):
    """Rejects queues with ``useJumboJobs`` for chunks that are not jumbo. Not for a single pre-assigned queue.

    Source: PanDA production brokerage, jumbo job check.
    """

    name = "jumbo"
    code = "jumbo"
    title = "Queues for jumbo jobs take no other jobs"
    sources = ("queues",)
    provenance = "PanDA production brokerage, jumbo job check"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are not jumbo."""
        return np.asarray(~tasks.jumbo & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(~candidates.use_jumbo)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue is one for jumbo jobs."""
        return Observation(flag(candidates.use_jumbo), "==", False, "-", "queue.useJumboJobs")
