"""The queue must have the software and the hardware that the task asks for."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.matching.outcomes import Outcome
from broker.rules.analysis.facts import of_analysis
from broker.rules.analysis.task_need import observed, outcomes
from broker.rules.contract import Filter, TuningView


class TaskSoftware(Filter):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    Not for the one queue that a task names. Source: ATLAS Analysis Job Brokerage, release/cache availability.
    """

    name = "task_software"
    code = "cache"
    title = "The queue has the software and the hardware of the task"
    sources = ("queues", "software")
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~of_analysis(facts).site_named)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        found = outcomes(tasks, candidates, facts)
        return np.asarray((found == Outcome.FITS) | (found == Outcome.PLATFORM_UNRESOLVED))

    def unknown(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """(T, Q): the task asks for particular GPUs, and the summary of GPUs cannot be used; None when it can."""
        if facts.software.gpus_known:
            return None
        return np.asarray(outcomes(tasks, candidates, facts) == Outcome.GPU_SOURCE)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """What was asked, what the queue has, and the best that it has."""
        return observed(tasks, candidates, facts, keeps=Outcome.PLATFORM_UNRESOLVED)
