"""The queue must have the software and the hardware that the task asks for."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.matching.outcomes import Outcome
from broker.rules.contract import Filter, TuningView
from broker.rules.software_need import PRODUCTION_NEED, NeedReading


class Software(Filter):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    What exactly is missing is the ``part`` of the observation. A platform that is a pattern and matches none of the
    queue is left to the rule that follows. Source: ATLAS Production Job Brokerage, release/cache availability.
    """

    name = "software"
    code = "cache"
    title = "The queue has the software and the hardware of the task"
    sources = ("queues", "software")
    reading: ClassVar[NeedReading] = PRODUCTION_NEED

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        found = self.reading.outcomes(tasks, candidates, facts)
        return np.asarray((found == Outcome.FITS) | (found == Outcome.PLATFORM_UNRESOLVED))

    def unknown(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """(T, Q): the task asks for particular GPUs, and the summary of GPUs cannot be used; None when it can."""
        if facts.software.gpus_known:
            return None
        return np.asarray(self.reading.outcomes(tasks, candidates, facts) == Outcome.GPU_SOURCE)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """What was asked, what the queue has, and the best that it has."""
        return self.reading.observed(tasks, candidates, facts, keeps=Outcome.PLATFORM_UNRESOLVED)
