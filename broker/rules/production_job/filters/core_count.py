"""Single-core jobs go to single-core queues, multi-core jobs to multi-core queues."""

from __future__ import annotations

from broker.domain.arrays import either
from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, flag, number
from broker.rules.shared.core_counts import is_multi_core, takes_multi_core, takes_single_core, task_cores


class CoreCount(Filter[JobPairs]):
    """Keeps queues of one core for tasks of one core, and queues of several for tasks of several.

    Numbers above one are not compared. A task of 0 cores takes both; from priority 900 on, and for scouts, only queues
    of several. Not for a single pre-assigned queue. Source: ATLAS Production Job Brokerage, CPU core count.
    """

    name = "core_count"
    reason = Reason(
        code="cpucore",
        title="Single-core or multi-core, as the task asks",
        violation="The queue has one core where the task asks for several, or several where it asks for one",
        no_candidate="has the cores that the task asks for",
        who="you",
        cure="Submit with a number of cores that queues have (`coreCount` of the task), or with 0 cores, which fits "
        "both kinds.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks without a single pre-assigned queue."""
        return not_single(pairs.facts)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the queue is single-core or multi-core, as the task requests."""
        return either(is_multi_core(pairs.candidates), takes_multi_core(pairs.chunks), takes_single_core(pairs.chunks))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue is single-core or multi-core, and the cores that the task needs."""
        single, multi = flag(takes_single_core(pairs.chunks)), flag(takes_multi_core(pairs.chunks))
        accepted = ", ".join(["single-core"] * single + ["multi-core"] * multi)
        value = "multi-core" if flag(is_multi_core(pairs.candidates)) else "single-core"
        inputs: dict[str, Value] = {
            "queue_cores": number(pairs.candidates.cores),
            "task_cores": number(task_cores(pairs.chunks)),
        }
        return Observation(value, "in", accepted, "cores", "task.corecount", inputs)
