"""The jobs of one chunk while they are assigned to candidates: made by the chunk's cutter under each queue's limits.

:class:`ChunkJobs` is the source from which :func:`broker.engine.shared.distribute.distribute` draws;
:class:`QueueLimits` holds the limits of C candidates. :func:`estimated_jobs` and :func:`jobs_of_weight` (T,) give the
jobs that chunks would make before any queue is chosen for them.

Source: ATLAS Analysis Job Brokerage, new basic weight (N_j); PanDA analysis brokerage, the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.estimates import DEFAULT_COREPOWER_HS06, reads_directly, scratch_limit_mb, takes_one_core_of_scratch
from broker.domain.queues import QueueTable
from broker.domain.split_rule import parse_split_rule
from broker.domain.work import WorkTable
from broker.work.assemble import CycleWork
from broker.work.cut_jobs import CutJobs
from broker.work.cutting import CutPiece, JobCutter, job_cutter
from broker.work.job_model import CutLimits, job_models
from broker.work.sequential import Position
from broker.work.split_settings import SplitSettings, settings_of_weight


def limit_columns(work: WorkTable, chunk: int, queues: QueueTable, candidates: Ints) -> tuple[AnyArray, ...]:
    """(C,) each: limits of each candidate for a job of the chunk, as columns of :class:`CutLimits`; 0 for none."""
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
    return (
        np.where(np.isfinite(scratch), scratch, 0.0),
        np.nan_to_num(queues.maxtime_s[candidates]),
        np.nan_to_num(queues.mintime_s[candidates]),
        queues.cores[candidates],
        queues.corepower[candidates],
        np.broadcast_to(direct, len(candidates)),
    )


def cut_limits(work: WorkTable, chunk: int, queues: QueueTable, candidates: Ints) -> list[CutLimits]:
    """Limits of each candidate for a job of the chunk; 0 is no limit."""
    columns = (column.tolist() for column in limit_columns(work, chunk, queues, candidates))
    return [CutLimits(*limits) for limits in zip(*columns, strict=True)]


def kinds_of(work: WorkTable) -> tuple[Bools, ...]:
    """(T,) each: columns in which two chunks must agree to have the same limits at a queue."""
    one_core = takes_one_core_of_scratch(work.corecount, work.eventservice)
    return one_core, work.merging, work.use_local_io, np.asarray(work.allow_input_lan > 0)


class QueueLimits:
    """:func:`cut_limits` of the queues of a cycle, computed once for chunks of the same kind.

    Only requested queues are computed: most queues of a grid are a candidate of no chunk of a cycle.

    Args:
        work: the chunks.
        queues: (Q,) the candidates.
    """

    def __init__(self, work: WorkTable, queues: QueueTable) -> None:
        self._work, self._queues = work, queues
        self._kind = list(zip(*(column.tolist() for column in kinds_of(work)), strict=True))
        self._known: dict[tuple[bool, ...], dict[int, CutLimits]] = {}

    def of(self, chunk: int, candidates: Ints) -> list[CutLimits]:
        """Limits of the candidates for a job of the chunk."""
        known, positions = self._known.setdefault(self._kind[chunk], {}), candidates.tolist()
        new = [at for at in positions if at not in known]
        if new:
            known.update(zip(new, cut_limits(self._work, chunk, self._queues, np.array(new)), strict=True))
        return [known[at] for at in positions]


class ChunkJobs:
    """The source of jobs that :func:`broker.engine.shared.distribute.distribute` draws from.

    Args:
        cutter: of the chunk.
        limits: of each candidate.
        holds: (C, files) which candidates hold which master files of a distributed dataset; None for any other dataset.
    """

    def __init__(self, cutter: JobCutter, limits: Sequence[CutLimits], holds: Bools | None = None) -> None:
        self._cutter, self._limits, self._holds = cutter, limits, holds
        self._candidates: list[int] = []
        self._pieces: list[CutPiece] = []
        self._positions: list[Position] = []

    def has_files(self) -> bool:
        """Whether files are left for another job."""
        return self._cutter.files_left > 0

    def make(self, candidate: int, count: int) -> int:
        """Make up to ``count`` jobs for the candidate and return how many were made."""
        position = self._cutter.mark()
        piece = self._cutter.take(count, self._limits[candidate])
        wanted = self._until_split(candidate, piece)
        if wanted < len(piece):
            self._cutter.rewind(position)
            piece = self._cutter.take(wanted, self._limits[candidate])
        if len(piece):
            self._candidates.append(candidate)
            self._pieces.append(piece)
            self._positions.append(position)
        return len(piece)

    def _until_split(self, candidate: int, piece: CutPiece) -> int:
        """The number of jobs up to and including the first that begins with a file held here and ends with another.

        After that job a new candidate is drawn, because the next files are elsewhere.
        """
        if self._holds is None or not len(piece):
            return len(piece)
        here = self._holds[candidate]
        split = here[piece.first] & ~here[piece.stop - 1]
        return int(np.argmax(split)) + 1 if bool(split.any()) else len(piece)

    def take_back(self) -> None:
        """Undo the last call of :meth:`make` that made jobs."""
        self._candidates.pop()
        self._pieces.pop()
        self._cutter.rewind(self._positions.pop())

    def holders_of_next(self) -> Bools | None:
        """(C,) which candidates hold the next file of a distributed dataset; None for any other dataset."""
        return None if self._holds is None else np.asarray(self._holds[:, self._cutter.next_file])

    def result(self) -> tuple[Ints, CutJobs]:
        """The candidate of each job, and the jobs, in the order in which they were made."""
        lengths = [len(piece) for piece in self._pieces]
        candidates = np.repeat(np.array(self._candidates, dtype=np.int64), lengths)
        return candidates, self._cutter.jobs(self._pieces)


#: Longest walltime of estimated jobs whose task sets no limit.
MAX_WALLTIME_S = 345_600.0


def estimated_jobs(work: CycleWork) -> Floats:
    """(T,) jobs that each chunk would make by its task's rules at a queue of its cores and 10 HS06; at least 1.

    They are as long as the task allows, else four days, and read as much input as jobs with direct access.
    """
    return _counted(work, work.settings, (work.cutter(row) for row in range(len(work.settings))))


def jobs_of_weight(work: CycleWork) -> Floats:
    """(T,) N_j: like :func:`estimated_jobs`, but only by the rules that count for the new weight.

    A merging chunk is counted as if it did not merge.
    """
    chunks = work.work.chunks
    settings = tuple(map(_settings, chunks.splitrule.tolist(), chunks.scout.tolist()))
    models = job_models(dataclasses.replace(chunks, merging=np.zeros_like(chunks.merging)))
    cutters = (
        job_cutter(work.inputs, row, own, model) for row, (own, model) in enumerate(zip(settings, models, strict=True))
    )
    return _counted(work, settings, cutters)


@lru_cache(maxsize=4096)
def _settings(splitrule: str | None, scout: bool) -> SplitSettings:
    return settings_of_weight(parse_split_rule(splitrule), scout)


def _counted(work: CycleWork, settings: tuple[SplitSettings, ...], cutters: Iterable[JobCutter]) -> Floats:
    chunks = work.work.chunks
    rows = zip(cutters, settings, chunks.n_files.tolist(), np.nan_to_num(chunks.corecount).tolist(), strict=True)
    counts = [len(cutter.cut(int(files), _limits(own, cores))) for cutter, own, files, cores in rows]
    return np.maximum(np.array(counts, dtype=np.float64), 1.0)


def _limits(settings: SplitSettings, cores: float) -> CutLimits:
    longest_s = 0.0 if settings.max_walltime_s > 0 else MAX_WALLTIME_S
    return CutLimits(maxtime_s=longest_s, cores=max(cores, 1.0), corepower=DEFAULT_COREPOWER_HS06, direct_io=True)
