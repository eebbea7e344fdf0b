"""Queues can refuse tasks of high IO intensity."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.estimates import is_set
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import limit_number, number


class MaxIoIntensity(Filter):
    """Rejects queues whose parameter ``max_io_intensity`` (kB/s) is smaller than the IO intensity of the task.

    Not for merging. Source: PanDA production brokerage, max IO intensity check.
    """

    name = "max_io_intensity"
    code = "max_io_intensity"
    title = "The IO intensity is not larger than the queue takes"
    sources = ("queues",)
    provenance = "PanDA production brokerage, max IO intensity check"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks with an IO intensity that are not merged."""
        return np.asarray(is_set(tasks.iointensity) & ~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q); a parameter that is NULL is no limit."""
        return np.asarray(~(tasks.iointensity > candidates.max_io_intensity))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The IO intensity of the task."""
        limit = limit_number(candidates.max_io_intensity)
        return Observation(number(tasks.iointensity), "<=", limit, "kB/s", "queue.max_io_intensity")
