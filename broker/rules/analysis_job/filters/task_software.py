"""The queue must have the software and the hardware that the task requests."""

from __future__ import annotations

import numpy as np

from broker.rules.analysis_job.task_need import ANALYSIS_NEED
from broker.rules.contract import AnalysisPairs, Bools
from broker.rules.shared.software_need import SoftwareRule


class TaskSoftware(SoftwareRule[AnalysisPairs]):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    Not for the one queue that a task names. Source: ATLAS Analysis Job Brokerage, release/cache availability.
    """

    name = "task_software"
    same_in_passes = True
    reading = ANALYSIS_NEED
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~pairs.facts.site_named)
