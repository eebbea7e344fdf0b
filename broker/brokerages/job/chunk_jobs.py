"""The jobs of one chunk while they are given to candidates: made by the chunk's cutter under each queue's limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.estimates import reads_directly, scratch_limit_mb, takes_one_core_of_scratch
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.work.cut_jobs import CutJobs, joined_jobs
from broker.work.cutting import JobCutter
from broker.work.job_model import CutLimits
from broker.work.sequential import Position


def cut_limits(work: WorkTable, chunk: int, queues: QueueTable, candidates: Ints) -> list[CutLimits]:
    """What each candidate allows a job of the chunk. 0 is no limit."""
    row = slice(chunk, chunk + 1)
    one_core = takes_one_core_of_scratch(work.corecount[row], work.eventservice[row])
    scratch = scratch_limit_mb(queues.maxwdir_mb[candidates], queues.unified_cores[candidates], one_core)
    direct = reads_directly(
        work.merging[row],
        work.use_local_io[row],
        work.allow_input_lan[row] > 0,
        queues.direct_access_lan[candidates],
        queues.maxinputsize_mb[candidates],
    )
    stats = (
        np.where(np.isfinite(scratch), scratch, 0.0),
        np.nan_to_num(queues.maxtime_s[candidates]),
        np.nan_to_num(queues.mintime_s[candidates]),
        queues.cores[candidates],
        queues.corepower[candidates],
    )
    columns = zip(
        *(column.tolist() for column in stats), np.broadcast_to(direct, len(candidates)).tolist(), strict=True
    )
    return [CutLimits(*limits) for limits in columns]


@dataclass(frozen=True)
class Made:
    """Jobs made for one candidate at once."""

    candidate: int
    jobs: CutJobs


class ChunkJobs:
    """The source of jobs that :func:`broker.engine.shared.distribute.distribute` draws from.

    Args:
        cutter: of the chunk.
        limits: of each candidate.
        holds: (C, files) which candidates hold which master files of a distributed dataset; None for any other dataset.
    """

    def __init__(self, cutter: JobCutter, limits: list[CutLimits], holds: Bools | None = None) -> None:
        self._cutter, self._limits, self._holds = cutter, limits, holds
        self._made: list[Made] = []
        self._marks: list[Position] = []

    def has_files(self) -> bool:
        """Whether files are left for another job."""
        return self._cutter.files_left > 0

    def make(self, candidate: int, count: int) -> int:
        """Make up to ``count`` jobs for the candidate and say how many there are."""
        mark = self._cutter.mark()
        first = self._cutter.next_file
        jobs = self._cutter.cut(count, self._limits[candidate])
        wanted = self._until_split(candidate, jobs, first)
        if wanted < len(jobs):
            self._cutter.rewind(mark)
            jobs = self._cutter.cut(wanted, self._limits[candidate])
        if len(jobs):
            self._made.append(Made(candidate, jobs))
            self._marks.append(mark)
        return len(jobs)

    def _until_split(self, candidate: int, jobs: CutJobs, first: int) -> int:
        """How many of the jobs, from the first, up to one that begins with a file that is here and ends with another.

        Behind that one a new candidate is drawn: from there on the files are elsewhere.
        """
        if self._holds is None or not len(jobs):
            return len(jobs)
        here, offset = self._holds[candidate], int(jobs.first[0]) - first
        split = here[jobs.first - offset] & ~here[jobs.stop - 1 - offset]
        return int(np.argmax(split)) + 1 if bool(split.any()) else len(jobs)

    def take_back(self) -> None:
        """Undo the last call of :meth:`make` that made jobs."""
        self._made.pop()
        self._cutter.rewind(self._marks.pop())

    def holders_of_next(self) -> Bools | None:
        """(C,) which candidates have the next file of a distributed dataset; None for any other dataset."""
        return None if self._holds is None else np.asarray(self._holds[:, self._cutter.next_file])

    def result(self) -> tuple[Ints, CutJobs]:
        """The candidate of each job, and the jobs, in the order in which they were made."""
        candidates = [np.full(len(made.jobs), made.candidate, dtype=np.int64) for made in self._made]
        jobs = joined_jobs([made.jobs for made in self._made])
        return (np.concatenate(candidates) if candidates else np.empty(0, dtype=np.int64)), jobs
