"""A job must fit into the memory of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import RAMCOUNT
from broker.domain.estimates import is_set, or_else
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, limit_number, number
from broker.rules.shared.by_kind import keep_by_kind
from broker.rules.shared.memory import MemoryOptions, asks_for_memory, expected_memory_mb, memory_inputs


class MemoryMax(Filter[JobPairs]):
    """Rejects queues whose ``maxrss`` (MB for the slot; 0 and NULL are no limit) is smaller than the expected memory.

    Source: ATLAS Production Job Brokerage, memory size.
    """

    name = "memory_max"
    same_in_passes = True
    reason = Reason(
        code="lowmemory",
        title="The expected memory fits into the slot",
        violation="The job needs more memory than a slot of the queue has",
        no_candidate="offers enough memory",
        who="you",
        cure="Ask for less memory (`ramCount` of the task; `prun --memory`, in MB), or make jobs that need less: fewer "
        "events or files for each. `broker explain TASK` says at which value a queue is left.",
        requests=(RAMCOUNT,),
        limit="queue.maxrss",
    )
    sources = ("queues",)
    options: MemoryOptions = MemoryOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks whose memory is known."""
        return asks_for_memory(pairs.chunks)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the expected memory fits into the slot."""
        return keep_by_kind(pairs.candidates, ("cores", "maxrss_mb"), lambda some: self._fits(pairs.chunks, some))

    def observe(self, pairs: JobPairs) -> Observation:
        """The expected memory of a job in the slot, in MB."""
        need = number(expected_memory_mb(pairs.chunks, pairs.candidates, self.options))
        limit = limit_number(or_else(pairs.candidates.maxrss_mb, np.inf))
        return Observation(need, "<=", limit, "MB", "queue.maxrss", memory_inputs(pairs.chunks, pairs.candidates))

    def _fits(self, tasks: WorkTable, some: QueueTable) -> Bools:
        needed = expected_memory_mb(tasks, some, self.options)
        return np.asarray(~is_set(some.maxrss_mb) | (needed <= some.maxrss_mb))
