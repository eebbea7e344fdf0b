"""Queues for high memory take only jobs that need it."""

from __future__ import annotations

import numpy as np

from broker.domain.estimates import is_set, or_else
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, limit_number, number
from broker.rules.shared.by_kind import keep_by_kind
from broker.rules.shared.memory import MemoryOptions, asks_for_memory, expected_memory_mb, memory_inputs


class MemoryMin(Filter[JobPairs]):
    """Rejects queues whose ``minrss`` (MB for the slot; 0 and NULL are no limit) is larger than the expected memory.

    Source: ATLAS Production Job Brokerage, memory size.
    """

    name = "memory_min"
    same_in_passes = True
    reason = Reason(
        code="highmemory",
        title="The expected memory is not too small for a high-memory slot",
        violation="The job needs too little memory: the slots of the queue are kept for large jobs",
        no_candidate="is for so little memory",
        who="you",
        cure="Ask for the memory that the jobs really need. Where that is little, other queues take them.",
        limit="queue.minrss",
    )
    sources = ("queues",)
    options: MemoryOptions = MemoryOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks whose memory is known."""
        return asks_for_memory(pairs.chunks)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the expected memory is not too small for a high-memory slot."""
        return keep_by_kind(pairs.candidates, ("cores", "minrss_mb"), lambda some: self._fits(pairs.chunks, some))

    def observe(self, pairs: JobPairs) -> Observation:
        """The expected memory of a job in the slot, in MB."""
        need = number(expected_memory_mb(pairs.chunks, pairs.candidates, self.options))
        limit = limit_number(or_else(pairs.candidates.minrss_mb, -np.inf))
        return Observation(need, ">=", limit, "MB", "queue.minrss", memory_inputs(pairs.chunks, pairs.candidates))

    def _fits(self, tasks: WorkTable, some: QueueTable) -> Bools:
        needed = expected_memory_mb(tasks, some, self.options)
        return np.asarray(~is_set(some.minrss_mb) | (needed >= some.minrss_mb))
