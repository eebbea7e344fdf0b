"""A job must fit on the scratch disk."""

from __future__ import annotations

import numpy as np

from broker.domain import estimates
from broker.domain.work import WorkTable
from broker.rules.contract import AnalysisPairs, Bools, Floats
from broker.rules.shared.scratch_rule import ScratchRule

MARGIN_BYTES = 300 * estimates.MB
MERGE_INPUTS = 2.0


class AnalysisScratch(ScratchRule[AnalysisPairs]):
    """The expected files of a job fit on the scratch disk.

    Rejects queues whose scratch disk for the job, in MB, is not larger than what the smallest job needs: output
    for each MB of input, work space and 300 MB (neither if no work space is stated), and the input unless it is read
    directly; twice the input when merging.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "analysis_scratch"
    same_in_passes = True
    provenance = "ATLAS Analysis Job Brokerage"

    def needs_mb(self, pairs: AnalysisPairs) -> tuple[Floats, Floats]:
        """(T, 1) twice: MB of output and work space of a job, with its input if that is copied, and without."""
        tasks, facts = pairs.chunks, pairs.facts
        input_bytes = np.nan_to_num(tasks.atom_bytes)
        outputs = np.maximum(np.nan_to_num(tasks.outdiskcount), 0.0) * estimates.disk_unit_bytes(tasks.outdiskunit)
        # a task that states no work space has no margin either
        work = np.nan_to_num(tasks.workdiskcount * estimates.disk_unit_bytes(tasks.workdiskunit) + MARGIN_BYTES)
        requested_mb = facts.gb_per_job * 1024.0
        direct = estimates.whole_mb(outputs * tasks.atom_mb + work)
        copied = np.maximum(estimates.whole_mb(outputs * tasks.atom_mb + work + input_bytes), requested_mb)
        at_least = np.where(
            (requested_mb > 0) & ~tasks.use_local_io, estimates.whole_mb(outputs * requested_mb + work), 0.0
        )
        merged = estimates.whole_mb(MERGE_INPUTS * input_bytes)
        return np.where(tasks.merging, merged, copied), np.where(tasks.merging, merged, np.maximum(direct, at_least))

    def takes_one_core(self, chunks: WorkTable) -> Bools:
        """(T, 1): true for tasks with one core or without a number of cores."""
        return np.asarray(np.isnan(chunks.corecount) | (chunks.corecount == 0) | (chunks.corecount == 1))
