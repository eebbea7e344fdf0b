"""Expected memory of jobs, for the upper and the lower limit of queues.

Source: ATLAS Production Job Brokerage, memory size: ``(baseRamCount + ramCount x coreCount) x 0.9``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.estimates import MEMORY_COMPENSATION, is_per_core, memory_mb, requested_ram_mb
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Floats, Options, Value, flag, number


class MemoryOptions(Options):
    """The estimate of the memory of a job.

    Attributes:
        base: ``baseRamCount`` is added in every unit, only in units of a core, or never.
        whole_mb: the estimate is cut to whole MB.
    """

    base: Literal["every_unit", "per_core_units", "never"] = "every_unit"
    whole_mb: bool = False


SHIPPED = MemoryOptions()


def asks_for_memory(tasks: WorkTable) -> Bools:
    """(T, 1): the chunk or its task states the memory it needs."""
    return np.asarray(_requested(tasks) > 0)


def expected_memory_mb(tasks: WorkTable, candidates: QueueTable, options: MemoryOptions = SHIPPED) -> Floats:
    """(T, Q): MB for one job at the queue."""
    per_core = is_per_core(tasks.ramunit)
    base = tasks.baseramcount
    if options.base != "every_unit":
        base = np.where(per_core & (options.base == "per_core_units"), base, 0.0)
    needed = memory_mb(_requested(tasks), base, per_core, tasks.merging, candidates.cores)
    return np.asarray(np.floor(needed)) if options.whole_mb else needed


def memory_inputs(tasks: WorkTable, candidates: QueueTable) -> dict[str, Value]:
    """The figures of the estimate, for one chunk and one candidate."""
    return {
        "ram_mb": number(_requested(tasks)),
        "base_mb": number(tasks.baseramcount),
        "per_core": flag(is_per_core(tasks.ramunit) & ~tasks.merging),
        "cores": number(candidates.cores),
        "compensation": MEMORY_COMPENSATION,
    }


def _requested(tasks: WorkTable) -> Floats:
    return requested_ram_mb(tasks.merging, tasks.ramcount, tasks.task_ramcount, tasks.mergeramcount)
