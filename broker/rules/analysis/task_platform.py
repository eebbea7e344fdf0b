"""A platform that is a pattern must stand for a platform of the queue."""

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


class TaskPlatform(Filter):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task.

    Not for the one queue that a task names. Source: ATLAS Analysis Job Brokerage, release/cache availability.
    """

    name = "task_platform"
    code = "regexpcmtconfig"
    title = "The pattern of the platform matches a platform of the queue"
    sources = ("queues", "software")
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~of_analysis(facts).site_named)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        found = outcomes(tasks, candidates, facts)
        return np.asarray(found != Outcome.PLATFORM_UNRESOLVED)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The pattern, and the platforms of the queue."""
        outcome = outcomes(tasks, candidates, facts).item()
        keeps = None if outcome == Outcome.PLATFORM_UNRESOLVED else Outcome(outcome)
        return observed(tasks, candidates, facts, keeps)
