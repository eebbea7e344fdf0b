"""The jobs of one chunk as the distribution asks for them: cut for a candidate, and given back if need be.

Source: ATLAS production brokerage, distribution over the chosen candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.domain.arrays import Bools
from broker.work.cut_jobs import CutJobs, joined_jobs
from broker.work.cutting import JobCutter
from broker.work.job_model import CutLimits
from broker.work.sequential import Position


class ChunkSource:
    """Cuts jobs of a chunk for its candidates.

    Args:
        cutter: the chunk.
        limits: what each candidate allows a job.
        held: (C, F) which master files each candidate has on its storages; ``None`` unless the dataset is distributed.
    """

    def __init__(self, cutter: JobCutter, limits: Sequence[CutLimits], held: Bools | None = None) -> None:
        self._cutter, self._limits, self._held = cutter, limits, held
        self._made: list[tuple[int, CutJobs, Position]] = []

    @property
    def made(self) -> list[tuple[int, CutJobs]]:
        """The groups in order: candidate and its jobs."""
        return [(candidate, jobs) for candidate, jobs, _ in self._made]

    def has_files(self) -> bool:
        """Whether files are left for another job."""
        return self._cutter.files_left > 0

    def make(self, candidate: int, count: int) -> int:
        """Make up to ``count`` jobs for the candidate and say how many there are."""
        mark = self._cutter.mark()
        if self._held is None:
            jobs = self._cutter.cut(count, self._limits[candidate])
        else:
            jobs = self._cut_where_held(candidate, count, self._held[candidate])
        if len(jobs):
            self._made.append((candidate, jobs, mark))
        return len(jobs)

    def _cut_where_held(self, candidate: int, count: int, held: Bools) -> CutJobs:
        parts: list[CutJobs] = []
        while len(parts) < count and self.has_files():
            first = self._cutter.next_file
            job = self._cutter.cut(1, self._limits[candidate])
            if not len(job):
                break
            parts.append(job)
            if held[first] and not held[self._cutter.next_file - 1]:
                break  # the files that follow may be elsewhere
        return joined_jobs(parts)

    def take_back(self) -> None:
        """Undo the last call of :meth:`make` that made jobs."""
        _, _, mark = self._made.pop()
        self._cutter.rewind(mark)

    def holders_of_next(self) -> Bools | None:
        """(C,) which candidates have the next file of a distributed dataset; ``None`` for any other dataset."""
        if self._held is None or not self.has_files():
            return None
        following: Bools = self._held[:, self._cutter.next_file]
        return following
