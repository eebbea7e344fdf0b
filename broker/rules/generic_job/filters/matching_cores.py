"""The cores of a task must match those of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_preassigned
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number

#: Values of ``corecount`` of a queue that takes any number of cores.
ANY_CORES = (0.0, -1.0)


class MatchingCores(Filter[JobPairs]):
    """Keeps queues of one core for tasks of one, and queues of at least as many for tasks of several.

    ``corecount`` 0 or -1 of a queue takes both; 0 of a task goes anywhere; negative and NULL are not asked, nor are
    pre-assigned queues. Source: PanDA JEDI, GenJobBroker.
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
        """Chunks with at least one core that were not given their queues."""
        return np.asarray((pairs.chunks.corecount > 0) & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): True where the candidate passes."""
        asked, offered = pairs.chunks.corecount, pairs.candidates.cores
        any_number = np.isin(offered, ANY_CORES)
        single = (asked == 1) & ((offered == 1) | np.isnan(offered))
        several = (asked != 1) & (offered >= asked)
        return np.asarray(any_number | single | several)

    def observe(self, pairs: JobPairs) -> Observation:
        """Cores of the queue; no limit where it takes any number."""
        asked, offered = number(pairs.chunks.corecount), number(pairs.candidates.cores)
        if offered in ANY_CORES or (asked == 1 and offered is None):
            return Observation(offered, ">=", None, "cores", "task.corecount")
        return Observation(offered, "==" if asked == 1 else ">=", asked, "cores", "task.corecount")
