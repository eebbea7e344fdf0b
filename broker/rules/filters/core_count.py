"""Single-core jobs go to single-core queues, multi-core jobs to multi-core queues."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.core_counts import is_multi_core, takes_multi_core, takes_single_core, task_cores
from broker.rules.observing import flag, number
from broker.rules.preassigned import not_single


class CoreCount(Filter):
    """Keeps queues of one core for tasks of one core, and queues of several for tasks of several.

    How many are several is not compared. A task of 0 cores takes both; from priority 900 on, and for scouts, only
    queues of several. Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, CPU core count.
    """

    name = "core_count"
    code = "cpucore"
    title = "Single-core or multi-core, as the task asks"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks without a single pre-assigned queue."""
        return not_single(facts)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.where(is_multi_core(candidates), takes_multi_core(tasks), takes_single_core(tasks))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Single-core or multi-core."""
        single, multi = flag(takes_single_core(tasks)), flag(takes_multi_core(tasks))
        accepted = ", ".join(["single-core"] * single + ["multi-core"] * multi)
        value = "multi-core" if flag(is_multi_core(candidates)) else "single-core"
        inputs: dict[str, Value] = {"queue_cores": number(candidates.cores), "task_cores": number(task_cores(tasks))}
        return Observation(value, "in", accepted, "cores", "task.corecount", inputs)
