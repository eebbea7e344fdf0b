"""A job must fit on the scratch disk."""

from __future__ import annotations

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, limit_number, number


class ScratchDisk(Filter):
    """Rejects queues whose scratch disk for the job, in MB, is not larger than what the smallest job needs.

    Need: output, work space, and the input unless it is read directly. Limit: ``maxwdir`` (0 and NULL are no limit) x
    cores of the job / cores of the unified queue. Source: ATLAS Production Job Brokerage, disk usage for a job.
    """

    name = "scratch_disk"
    code = "disk"
    title = "The expected files of a job fit on the scratch disk"
    sources = ("queues",)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        copy, direct = _needs_mb(tasks)
        need = np.where(_reads_directly(tasks, candidates), direct, copy)
        return np.asarray(need < _limit_mb(tasks, candidates))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The need of the smallest job."""
        copy, direct = _needs_mb(tasks)
        read = flag(_reads_directly(tasks, candidates))
        limit = limit_number(_limit_mb(tasks, candidates))
        inputs: dict[str, Value] = {
            "direct_reading": read,
            "input_mb": number(estimates.whole_mb(tasks.atom_bytes)),
            "maxwdir_mb": number(candidates.maxwdir_mb),
            "queue_cores": number(candidates.unified_cores),
            "task_cores": number(tasks.corecount),
        }
        return Observation(number(direct if read else copy), "<", limit, "MB", "queue.maxwdir", inputs)


def _needs_mb(tasks: WorkTable) -> tuple[Floats, Floats]:
    """(T, 1) twice: with the input copied, and with the input read directly."""
    output = estimates.output_bytes(tasks.outdiskcount, tasks.outdiskunit, tasks.atom_events, tasks.atom_mb)
    written = output + estimates.workdir_bytes(tasks.workdiskcount, tasks.workdiskunit)
    return estimates.whole_mb(written + np.nan_to_num(tasks.atom_bytes)), estimates.whole_mb(written)


def _reads_directly(tasks: WorkTable, candidates: QueueTable) -> Bools:
    return estimates.reads_directly(
        tasks.merging,
        tasks.use_local_io,
        tasks.allow_input_lan > 0,
        candidates.direct_access_lan,
        candidates.maxinputsize_mb,
    )


def _limit_mb(tasks: WorkTable, candidates: QueueTable) -> Floats:
    one_core = estimates.takes_one_core_of_scratch(tasks.corecount, tasks.eventservice)
    return estimates.scratch_limit_mb(candidates.maxwdir_mb, candidates.unified_cores, one_core)
