"""Queues for high memory take only jobs that need it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.estimates import or_else
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.memory import asks_for_memory, expected_memory_mb, memory_inputs
from broker.rules.observing import limit_number, number


class MemoryMin(Filter):
    """Rejects queues whose ``minrss`` (MB for the slot; 0 and NULL are no limit) is larger than the expected memory.

    Source: ATLAS Production Job Brokerage, memory size.
    """

    name = "memory_min"
    code = "highmemory"
    title = "The expected memory is not too small for a high-memory slot"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks whose memory is known."""
        return asks_for_memory(tasks)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(expected_memory_mb(tasks, candidates) >= or_else(candidates.minrss_mb, -np.inf))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The expected memory."""
        need = number(expected_memory_mb(tasks, candidates))
        limit = limit_number(or_else(candidates.minrss_mb, -np.inf))
        return Observation(need, ">=", limit, "MB", "queue.minrss", memory_inputs(tasks, candidates))
