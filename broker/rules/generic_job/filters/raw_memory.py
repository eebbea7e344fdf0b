"""The memory of a job must lie between the limits of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import RAMCOUNT
from broker.domain.estimates import is_per_core, or_else, or_zero, requested_ram_mb
from broker.domain.facts import not_preassigned
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Reason, Value, limit_number, number
from broker.rules.shared.by_kind import keep_by_kind


class RawMemory(Filter[JobPairs]):
    """Rejects queues whose ``maxrss`` is below, or ``minrss`` above, the memory of a job; 0 and NULL are no limit.

    Per-core units: x cores of the queue (of the task if the queue has none) + ``baseRamCount``, without any reduction.
    Not for pre-assigned queues. Source: PanDA JEDI, GenJobBroker.
    """

    name = "raw_memory"
    reason = Reason(
        code="memory",
        title="The memory of a job is within the limits of the queue",
        violation="The job needs more memory than a slot of the queue has, or less than it has to use",
        no_candidate="takes jobs of this memory",
        who="you",
        cure="Change `ramCount` of the task (`prun --memory`, in MB), or make jobs that need another amount.",
        requests=(RAMCOUNT,),
        limit="queue.maxrss",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks whose memory is known and that have no pre-assigned queues."""
        return np.asarray((_request_mb(pairs.chunks) > 0) & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): True where the candidate passes."""

        def fitting(some: QueueTable) -> Bools:
            needed = _needed_mb(pairs.chunks, some)
            return np.asarray((needed <= or_else(some.maxrss_mb, np.inf)) & (needed >= or_zero(some.minrss_mb)))

        return keep_by_kind(pairs.candidates, ("cores", "maxrss_mb", "minrss_mb"), fitting)

    def observe(self, pairs: JobPairs) -> Observation:
        """The memory in MB, against the limit that it breaks, else against the upper one."""
        needed, queues = _needed_mb(pairs.chunks, pairs.candidates), pairs.candidates
        inputs: dict[str, Value] = {"ram_mb": number(_request_mb(pairs.chunks)), "cores": number(queues.cores)}
        if bool((needed < or_zero(queues.minrss_mb)).item()):
            return Observation(number(needed), ">=", number(queues.minrss_mb), "MB", "queue.minrss", inputs)
        upper = limit_number(or_else(queues.maxrss_mb, np.inf))
        return Observation(number(needed), "<=", upper, "MB", "queue.maxrss", inputs)


def _request_mb(chunks: WorkTable) -> Floats:
    return requested_ram_mb(chunks.merging, chunks.ramcount, chunks.task_ramcount, chunks.mergeramcount)


def _needed_mb(chunks: WorkTable, queues: QueueTable) -> Floats:
    """(T, Q): the memory that a job needs at each candidate, in MB."""
    requested = _request_mb(chunks)
    cores = np.where(queues.cores > 0, queues.cores, or_else(chunks.corecount, 1.0))
    return np.where(is_per_core(chunks.ramunit), requested * cores + or_zero(chunks.baseramcount), requested)
