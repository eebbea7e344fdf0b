"""A platform that is a pattern must stand for a platform of the queue."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.analysis.task_need import ANALYSIS_NEED
from broker.rules.contract import TuningView
from broker.rules.filters.regexpcmtconfig import Regexpcmtconfig
from broker.rules.software_need import NeedReading


class TaskPlatform(Regexpcmtconfig):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task.

    Not for the one queue that a task names. Source: ATLAS Analysis Job Brokerage, release/cache availability.
    """

    name = "task_platform"
    reading: ClassVar[NeedReading] = ANALYSIS_NEED
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~of_analysis(facts).site_named)
