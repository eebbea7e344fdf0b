"""The files of a job must fit on the scratch disk of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import either
from broker.domain.decisions import OUTDISKCOUNT, WORKDISKCOUNT
from broker.domain.work import WorkTable
from broker.rules.contract import (
    Bools,
    Filter,
    Floats,
    JobPairs,
    Observation,
    Reason,
    Value,
    flag,
    limit_number,
    number,
)
from broker.rules.shared.scratch_rule import reads_directly


class QueueScratch(Filter[JobPairs]):
    """Rejects queues whose ``maxwdir`` (MB; 0 and NULL are no limit) is smaller than what a job writes and copies.

    Need in whole MB: ``outDiskCount`` and ``workDiskCount`` as they stand, 300 MB more if the task states the latter,
    and the files of the largest job unless they are read directly. Source: PanDA JEDI, GenJobBroker.
    """

    name = "queue_scratch"
    reason = Reason(
        code="disk",
        title="The files of a job fit on the scratch disk",
        violation="The job needs more scratch disk than the queue has",
        no_candidate="has enough scratch disk",
        who="you",
        cure="Make the jobs smaller (`nFilesPerJob` of the task; `prun --nFilesPerJob`), or lower `workDiskCount` or "
        "`outDiskCount` where the task states more than its jobs write.",
        requests=(WORKDISKCOUNT, OUTDISKCOUNT),
        limit="queue.maxwdir",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the need is not above the limit."""
        copied, direct = _needs_mb(pairs.chunks)
        limit = _limit_mb(pairs)
        return either(reads_directly(pairs.chunks, pairs.candidates), direct <= limit, copied <= limit)

    def observe(self, pairs: JobPairs) -> Observation:
        """The need of a job in MB."""
        reads = reads_directly(pairs.chunks, pairs.candidates)
        copied, direct = _needs_mb(pairs.chunks)
        need = number(np.where(reads, direct, copied))
        inputs: dict[str, Value] = {
            "direct_reading": flag(reads),
            "input_mb": number(estimates.whole_mb(pairs.chunks.atom_bytes)),
        }
        return Observation(need, "<=", limit_number(_limit_mb(pairs)), "MB", "queue.maxwdir", inputs)


def _limit_mb(pairs: JobPairs) -> Floats:
    limit = pairs.candidates.maxwdir_mb
    return np.where(estimates.is_set(limit), limit, np.inf)


def _needs_mb(chunks: WorkTable) -> tuple[Floats, Floats]:
    """(T, 1) twice: whole MB with the input copied, and with the input read directly."""
    output = np.maximum(estimates.or_zero(chunks.outdiskcount), 0.0) * estimates.disk_unit_bytes(chunks.outdiskunit)
    requested = chunks.workdiskcount * estimates.disk_unit_bytes(chunks.workdiskunit)
    written = output + estimates.or_zero(requested + estimates.WORKDIR_FLOOR_BYTES)
    everything = written + estimates.or_zero(chunks.atom_bytes)
    return estimates.whole_mb(everything), estimates.whole_mb(np.where(chunks.use_local_io, everything, written))
