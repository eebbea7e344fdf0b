"""The storage of the queue must have free space."""

from __future__ import annotations

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number
from broker.rules.storage_order import MIN_FREE_GB, has_free_space


class FreeSpace(Filter):
    """Rejects queues whose default output endpoint has 200 GB (STORAGE_MIN_FREE_SIZE) of free space or less.

    Source: ATLAS Production Job Brokerage, DISK size check.
    """

    name = "free_space"
    code = "disk"
    title = "The storage has free space"
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    unknown_policy = "keep"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q); without an endpoint on record (NaN) it is not tested."""
        return has_free_space(facts, tuning)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Free space; no limit where there is no endpoint."""
        free = number(facts.space_free_gb)
        return Observation(free, ">", None if free is None else tuning.number(MIN_FREE_GB), "GB", MIN_FREE_GB)
