"""The cores of a task must match those of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_preassigned
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number

#: Values of ``corecount`` of a queue that takes any number of cores.
ANY_CORES = (0.0, -1.0)


class MatchingCores(Filter[JobPairs]):
    """Keeps queues of one core for tasks of one, and queues of at least as many for tasks of several.

    A queue with ``corecount`` 0 or -1 takes both. A task with 0 goes anywhere; one with a negative number or NULL is
    not checked, nor are pre-assigned queues. Source: PanDA JEDI, GenJobBroker.
    """

    name = "matching_cores"
    reason = Reason(
        code="cpucore",
        title="The cores of the task match those of the queue",
        violation="The queue has another number of cores than the task asks for",
        no_candidate="has slots of as many cores",
        who="you",
        cure="Change `coreCount` of the task (`prun --nCore`); 0 goes to queues of any number.",
        limit="queue.corecount",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with at least one core and without pre-assigned queues."""
        return np.asarray((pairs.chunks.corecount > 0) & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): True where the candidate passes."""
        requested, offered = pairs.chunks.corecount, pairs.candidates.cores
        any_number = np.isin(offered, ANY_CORES)
        single = (requested == 1) & ((offered == 1) | np.isnan(offered))
        several = (requested != 1) & (offered >= requested)
        return np.asarray(any_number | single | several)

    def observe(self, pairs: JobPairs) -> Observation:
        """Cores of the queue; no limit if it takes any number."""
        requested, offered = number(pairs.chunks.corecount), number(pairs.candidates.cores)
        if offered in ANY_CORES or (requested == 1 and offered is None):
            return Observation(offered, ">=", None, "cores", "task.corecount")
        return Observation(offered, "==" if requested == 1 else ">=", requested, "cores", "task.corecount")
