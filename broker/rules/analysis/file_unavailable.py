"""Queues that read only local data must have all of it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag


class FileUnavailable(Filter):
    """A queue that reads only local data has all files of the chunk.

    Rejects queues with ``use_only_local_data`` in their catchall that have not all files of some dataset, neither on
    disk nor on tape. Datasets without a complete replica on a disk anywhere do not count, nor do distributed ones in
    a pass with the locality check.

    Source: PanDA analysis brokerage, file availability.
    """

    name = "file_unavailable"
    code = "fileunavailable"
    title = "A queue that reads only local data has all files of the chunk"
    sources = ("storages",)
    provenance = "PanDA analysis brokerage, file availability"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(~of_analysis(facts).lacks_files)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether files are missing."""
        inputs: dict[str, Value] = {"use_only_local_data": flag(candidates.use_only_local_data)}
        return Observation(flag(of_analysis(facts).lacks_files), "==", False, "-", "queue.catchall", inputs)
