"""A platform pattern must match a platform of the queue."""

from __future__ import annotations

import numpy as np

from broker.rules.analysis_job.task_need import ANALYSIS_NEED
from broker.rules.contract import AnalysisPairs, Bools
from broker.rules.shared.software_need import PlatformRule


class TaskPlatform(PlatformRule[AnalysisPairs]):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task.

    Not for the one queue that a task names. Source: ATLAS Analysis Job Brokerage, release/cache availability.
    """

    name = "task_platform"
    same_in_passes = True
    reading = ANALYSIS_NEED
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~pairs.facts.site_named)
