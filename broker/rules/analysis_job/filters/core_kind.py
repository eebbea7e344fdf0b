"""Single-core jobs go to single-core queues, multi-core jobs to multi-core queues."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, Value, flag, number
from broker.rules.shared.core_counts import is_multi_core

PROVENANCE = "ATLAS Analysis Job Brokerage"


class CoreKind(Filter[AnalysisPairs]):
    """The queue is single-core or multi-core, as the task requests.

    Keeps queues of one core for tasks of one core, and queues of several for tasks of several; 0 cores take both. For a
    merge, the cores of its task decide.

    Source: PanDA analysis brokerage, filters.
    """

    name = "core_kind"
    same_in_passes = True
    reason = Reason(
        code="cpucore",
        title="Single-core or multi-core, as the task asks",
        violation="The queue has one core where the task asks for several, or several where it asks for one",
        no_candidate="has the cores that the task asks for",
        who="you",
        cure="Submit with a number of cores that queues have (`prun --nCore`), or with 0 cores, which fits both kinds.",
    )
    sources = ("queues",)
    provenance = PROVENANCE

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the queue is single-core or multi-core, as the task requests."""
        cores = pairs.chunks.corecount
        return np.asarray((cores == 0) | ((cores > 1) == is_multi_core(pairs.candidates)))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue is single-core or multi-core, and the cores that the task needs."""
        cores = number(pairs.chunks.corecount)
        cores = 1.0 if cores is None else cores
        wanted = "any" if cores == 0 else "multi-core" if cores > 1 else "single-core"
        seen = wanted if cores == 0 else "multi-core" if flag(is_multi_core(pairs.candidates)) else "single-core"
        inputs: dict[str, Value] = {"queue_cores": number(pairs.candidates.cores), "task_cores": cores}
        return Observation(seen, "==", wanted, "cores", "task.corecount", inputs)
