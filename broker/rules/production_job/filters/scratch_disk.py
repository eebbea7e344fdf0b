"""A job must fit on the scratch disk."""

from __future__ import annotations

from broker.domain import estimates
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Floats, JobPairs
from broker.rules.shared.scratch_rule import ScratchRule


class ScratchDisk(ScratchRule[JobPairs]):
    """Rejects queues whose scratch disk for the job, in MB, is not larger than what the smallest job needs.

    Need: output, work space, and the input unless it is read directly. Source: ATLAS Production Job Brokerage, disk
    usage for a job.
    """

    name = "scratch_disk"

    def needs_mb(self, pairs: JobPairs) -> tuple[Floats, Floats]:
        """(T, 1) twice: MB with the input copied, and with the input read directly."""
        tasks = pairs.chunks
        output = estimates.output_bytes(tasks.outdiskcount, tasks.outdiskunit, tasks.atom_events, tasks.atom_mb)
        written = output + self.work_bytes(tasks)
        return estimates.whole_mb(written + estimates.or_zero(tasks.atom_bytes)), estimates.whole_mb(written)

    def takes_one_core(self, chunks: WorkTable) -> Bools:
        """(T, 1): tasks of 0, 1 or NULL cores other than event service."""
        return estimates.takes_one_core_of_scratch(chunks.corecount, chunks.eventservice)
