"""A job must fit on the scratch disk."""

from __future__ import annotations

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, limit_number, number

PROVENANCE = "ATLAS Analysis Job Brokerage"
MARGIN_BYTES = 300 * estimates.MB
MERGE_INPUTS = 2.0


class AnalysisScratch(Filter):
    """The expected files of a job fit on the scratch disk.

    Rejects queues whose scratch disk for the job, in MB, is not larger than what the smallest job needs: output
    for each MB of input, work space and 300 MB, and the input unless it is read directly; twice the input when
    merging.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "analysis_scratch"
    code = "disk"
    title = "The expected files of a job fit on the scratch disk"
    sources = ("queues",)
    provenance = PROVENANCE

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(_need_mb(tasks, candidates, facts) < _limit_mb(tasks, candidates))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The need of the smallest job."""
        inputs: dict[str, Value] = {
            "direct_reading": flag(_direct(tasks, candidates)),
            "input_mb": number(estimates.whole_mb(tasks.atom_bytes)),
            "maxwdir_mb": number(candidates.maxwdir_mb),
            "queue_cores": number(candidates.unified_cores),
            "task_cores": number(tasks.corecount),
        }
        need, limit = number(_need_mb(tasks, candidates, facts)), limit_number(_limit_mb(tasks, candidates))
        return Observation(need, "<", limit, "MB", "queue.maxwdir", inputs)


def _direct(tasks: WorkTable, candidates: QueueTable) -> Bools:
    return estimates.reads_directly(
        tasks.merging,
        tasks.use_local_io,
        tasks.allow_input_lan > 0,
        candidates.direct_access_lan,
        candidates.maxinputsize_mb,
    )


def _need_mb(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    input_bytes = np.nan_to_num(tasks.atom_bytes)
    outputs = np.maximum(np.nan_to_num(tasks.outdiskcount), 0.0) * estimates.disk_unit_bytes(tasks.outdiskunit)
    work = np.nan_to_num(tasks.workdiskcount) * estimates.disk_unit_bytes(tasks.workdiskunit) + MARGIN_BYTES
    asked_mb = of_analysis(facts).gb_per_job * 1024.0
    direct = estimates.whole_mb(outputs * tasks.atom_mb + work)
    copied = np.maximum(estimates.whole_mb(outputs * tasks.atom_mb + work + input_bytes), asked_mb)
    at_least = np.where((asked_mb > 0) & ~tasks.use_local_io, estimates.whole_mb(outputs * asked_mb + work), 0.0)
    need = np.where(_direct(tasks, candidates), np.maximum(direct, at_least), copied)
    return np.where(tasks.merging, estimates.whole_mb(MERGE_INPUTS * input_bytes), need)


def _limit_mb(tasks: WorkTable, candidates: QueueTable) -> Floats:
    one_core = np.isnan(tasks.corecount) | (tasks.corecount == 0) | (tasks.corecount == 1)
    return estimates.scratch_limit_mb(candidates.maxwdir_mb, candidates.unified_cores, one_core)
