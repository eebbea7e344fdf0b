"""A platform that is a pattern must stand for a platform of the queue."""

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


class Regexpcmtconfig(Filter):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task.

    Source: ATLAS Production Job Brokerage, checks for CPU and/or GPU hardware (regexp in sw_platform).
    """

    name = "regexpcmtconfig"
    code = "regexpcmtconfig"
    title = "The pattern of the platform matches a platform of the queue"
    sources = ("queues", "software")
    reading: ClassVar[NeedReading] = PRODUCTION_NEED

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(self.reading.outcomes(tasks, candidates, facts) != Outcome.PLATFORM_UNRESOLVED)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The pattern, and the platforms of the queue."""
        outcome = self.reading.outcomes(tasks, candidates, facts).item()
        keeps = None if outcome == Outcome.PLATFORM_UNRESOLVED else Outcome(outcome)
        return self.reading.observed(tasks, candidates, facts, keeps)
