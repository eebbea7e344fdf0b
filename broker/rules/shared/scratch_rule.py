"""The base class of the rules on scratch disk; each job brokerage derives its own, with its own estimate."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Literal, TypeVar

import numpy as np

from broker.domain import estimates
from broker.domain.arrays import either
from broker.domain.decisions import OUTDISKCOUNT, WORKDISKCOUNT
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import (
    Bools,
    Filter,
    Floats,
    JobPairs,
    Observation,
    Operator,
    Options,
    Reason,
    Value,
    flag,
    limit_number,
    number,
)
from broker.rules.shared.by_kind import keep_by_kind

PairsT = TypeVar("PairsT", bound=JobPairs)
#: The columns of a queue that are compared.
_COMPARED = ("maxwdir_mb", "unified_cores", "direct_access_lan", "maxinputsize_mb")


class ScratchOptions(Options):
    """The scratch disk that a job needs.

    Attributes:
        work: the work space is at least 300 MB, or the task's and 300 MB more, which is nothing where the task gives
            none.
        equality: whether a disk of exactly the need is large enough.
    """

    work: Literal["at_least_300_mb", "300_mb_more"] = "at_least_300_mb"
    equality: Literal["rejects", "passes"] = "rejects"


class ScratchRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues whose scratch disk for the job, in MB, is not larger than what the smallest job needs.

    Limit: ``maxwdir`` (0 and NULL are no limit) x cores of the job / cores of the unified queue. Source: ATLAS
    Production Job Brokerage, disk usage for a job.
    """

    reason = Reason(
        code="disk",
        title="The expected files of a job fit on the scratch disk",
        violation="The job needs more scratch disk than the queue has for it",
        no_candidate="has enough scratch disk",
        who="you",
        cure="Make the jobs smaller: fewer files or events for each (`nFilesPerJob`, `nGBPerJob` or `nEventsPerJob` of "
        "the task, and the options of `prun` of the same names). Where the task states more than its jobs write, "
        "lower `workDiskCount` or `outDiskCount` (`prun --outDiskCount`). `broker explain TASK` says at which "
        "value a queue is left.",
        requests=(WORKDISKCOUNT, OUTDISKCOUNT),
        limit="queue.maxwdir",
    )
    sources = ("queues",)
    options: ScratchOptions = ScratchOptions()

    @abstractmethod
    def needs_mb(self, pairs: PairsT) -> tuple[Floats, Floats]:
        """(T, 1) twice: MB that the smallest job needs if its input is copied, and if it is read directly."""

    @abstractmethod
    def takes_one_core(self, chunks: WorkTable) -> Bools:
        """(T, 1): the job gets one core's part of the scratch disk."""

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q): true where the expected files of a job fit on the scratch disk."""
        copied, direct = self.needs_mb(pairs)
        one_core = self.takes_one_core(pairs.chunks)
        fits = np.less_equal if self.options.equality == "passes" else np.less

        def fitting(some: QueueTable) -> Bools:
            limit = estimates.scratch_limit_mb(some.maxwdir_mb, some.unified_cores, one_core)
            return either(reads_directly(pairs.chunks, some), fits(direct, limit), fits(copied, limit))

        return keep_by_kind(pairs.candidates, _COMPARED, fitting)

    def observe(self, pairs: PairsT) -> Observation:
        """The need of the smallest job."""
        inputs: dict[str, Value] = {
            "direct_reading": flag(reads_directly(pairs.chunks, pairs.candidates)),
            "input_mb": number(estimates.whole_mb(pairs.chunks.atom_bytes)),
            "maxwdir_mb": number(pairs.candidates.maxwdir_mb),
            "queue_cores": number(pairs.candidates.unified_cores),
            "task_cores": number(pairs.chunks.corecount),
        }
        copied, direct = self.needs_mb(pairs)
        need = number(np.where(reads_directly(pairs.chunks, pairs.candidates), direct, copied))
        of, cores = pairs.candidates.maxwdir_mb, pairs.candidates.unified_cores
        limit = limit_number(estimates.scratch_limit_mb(of, cores, self.takes_one_core(pairs.chunks)))
        operator: Operator = "<=" if self.options.equality == "passes" else "<"
        return Observation(need, operator, limit, "MB", "queue.maxwdir", inputs)

    def work_bytes(self, chunks: WorkTable) -> Floats:
        """(T, 1): the work space of a job in bytes."""
        if self.options.work == "at_least_300_mb":
            return estimates.workdir_bytes(chunks.workdiskcount, chunks.workdiskunit)
        requested = chunks.workdiskcount * estimates.disk_unit_bytes(chunks.workdiskunit)
        return estimates.or_zero(requested + estimates.WORKDIR_FLOOR_BYTES)


def reads_directly(chunks: WorkTable, candidates: QueueTable) -> Bools:
    """(T, Q): the input is read from the storage and needs no scratch disk."""
    return estimates.reads_directly(
        chunks.merging,
        chunks.use_local_io,
        chunks.allow_input_lan > 0,
        candidates.direct_access_lan,
        candidates.maxinputsize_mb,
    )
