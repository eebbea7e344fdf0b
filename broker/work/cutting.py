"""Jobs cut out of a chunk for a chosen queue, by the task's own rules and the limits of the queue.

The first file (or, with an exact number of files, the first such group) is always taken; further files are added only
while every limit still holds. Files are used in their order. Source: ATLAS production brokerage, per-job maxima.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.work.chunks import InputFiles
from broker.work.cut_jobs import CutJobs, no_jobs
from broker.work.file_sums import FileRuns
from broker.work.input_files import effective_bytes, effective_events
from broker.work.job_model import CutLimits, JobFit, JobModel, walltimes_s
from broker.work.sequential import JobContent, Position, SequentialCutter
from broker.work.split_settings import MAX_FILES_IN_ALL, SplitSettings, job_breaks, next_breaks, unlimited_files


@dataclass(frozen=True)
class CutPiece:
    """Jobs (length J) cut at once for one queue, before their figures are computed.

    ``first`` and ``stop`` (exclusive) are positions among the master files of the chunk; ``walltime_s`` is NaN where
    unknown. ``contents`` has the files of each job where datasets besides the master take part.
    """

    first: Ints
    stop: Ints
    walltime_s: Floats
    fit: JobFit
    contents: tuple[JobContent, ...] = ()

    def __len__(self) -> int:
        return len(self.first)


class JobCutter(Protocol):
    """Cuts the jobs of one chunk, in the order of its files."""

    @property
    def files_left(self) -> int:
        """Number of master files that no job has yet."""

    @property
    def next_file(self) -> int:
        """Position of the next master file among those of the chunk."""

    def take(self, count: int, limits: CutLimits) -> CutPiece:
        """Take up to ``count`` jobs for a queue; fewer if files run out, or a job would be below its mintime."""

    def jobs(self, pieces: Sequence[CutPiece]) -> CutJobs:
        """The jobs of all ``pieces`` with their figures, one piece after the other."""

    def cut(self, count: int, limits: CutLimits) -> CutJobs:
        """The jobs of one :meth:`take`."""

    def mark(self) -> Position:
        """How far the chunk has been used."""

    def rewind(self, mark: Position) -> None:
        """Give back everything that was cut after ``mark``."""


def job_cutter(inputs: InputFiles, chunk: int, settings: SplitSettings, model: JobModel) -> JobCutter:
    """The cutter for the chunk: by sums over runs of files where its input allows that, else file by file."""
    positions = inputs.inputs_of(chunk)
    master = positions[0]
    if len(positions) == 1 and inputs.sums.names_in_one_run(master):
        return RunCutter(inputs.sums.runs(master), int(inputs.offsets[master]), settings, model)
    return FileCutter(inputs, chunk, settings, model)


def _before(values: Ints) -> Ints:
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


class RunCutter:
    """Cutter of chunks without secondaries: jobs are runs of files, measured with prefix sums."""

    def __init__(self, runs: FileRuns, offset: int, settings: SplitSettings, model: JobModel) -> None:
        """Prepare the files; ``offset`` is the position of the first of them in ``InputFiles.files``."""
        self._count, self._offset, self._settings, self._model = len(runs), offset, settings, model
        self._runs = runs
        self._at = 0
        self._guess = 1
        self._walltime: dict[tuple[float, float], Ints | None] = {}

    @cached_property
    def _next_break(self) -> list[int]:
        if not self._settings.breaks:
            return [self._count] * self._count
        breaks: list[int] = next_breaks(job_breaks(self._runs.files, self._settings)).tolist()
        return breaks

    @cached_property
    def _unlimited(self) -> list[bool]:
        unlimited: list[bool] = unlimited_files(self._runs.files, self._settings).tolist()
        return unlimited

    @property
    def files_left(self) -> int:
        """Number of master files that no job has yet."""
        return self._count - self._at

    @property
    def next_file(self) -> int:
        """Position of the next master file among those of the chunk."""
        return self._at

    def mark(self) -> Position:
        """How far the chunk has been used."""
        return Position(self._at, ())

    def rewind(self, mark: Position) -> None:
        """Give back everything that was cut after ``mark``."""
        self._at = mark.master

    def cut(self, count: int, limits: CutLimits) -> CutJobs:
        """Up to ``count`` jobs for a queue with these limits; see :class:`JobCutter`."""
        return self.jobs((self.take(count, limits),))

    def take(self, count: int, limits: CutLimits) -> CutPiece:
        """Up to ``count`` jobs for a queue with these limits, without their figures."""
        fit = JobFit(self._settings, self._model, limits)
        seconds = self._walltime_before(limits)
        if self._settings.takes_files_at_once:
            step = self._settings.files_limit
            first = np.arange(self._at, min(self._count, self._at + count * step), step, dtype=np.int64)
            stop = np.minimum(first + step, self._count)
        else:
            first, stop = self._grown(count, fit, seconds)
        walltime = self._walltimes(first, stop, seconds)
        jobs = _long_enough(walltime, fit.least_walltime_s)
        self._at = int(stop[jobs - 1]) if jobs else self._at
        return CutPiece(first[:jobs], stop[:jobs], walltime[:jobs], fit)

    def _walltime_before(self, limits: CutLimits) -> Ints | None:
        key = (limits.cores, limits.corepower)
        if key not in self._walltime:
            seconds = walltimes_s(self._model, limits, self._runs.file_events, self._runs.file_size)
            self._walltime[key] = None if seconds is None else _before(seconds)
        return self._walltime[key]

    def _walltimes(self, first: Ints, stop: Ints, seconds: Ints | None) -> Floats:
        if seconds is None:
            return np.full(len(first), np.nan)
        return np.asarray(self._model.base_walltime_s + (seconds[stop] - seconds[first]), dtype=np.float64)

    def _grown(self, count: int, fit: JobFit, seconds: Ints | None) -> tuple[Ints, Ints]:
        first: list[int] = []
        stop: list[int] = []
        at = self._at
        while at < self._count and len(first) < count:
            end = self._end_of_job(at, fit, seconds)
            first.append(at)
            stop.append(end)
            at = end
        return np.array(first, dtype=np.int64), np.array(stop, dtype=np.int64)

    def _end_of_job(self, at: int, fit: JobFit, seconds: Ints | None) -> int:
        """The largest end for which every limit holds, searched for around the length of the previous job."""
        last = self._next_break[at]
        if self._unlimited[at]:
            return last
        last = min(last, at + self._settings.files_limit, at + MAX_FILES_IN_ALL)
        end = max(min(at + self._guess, last), at + 1)
        if end > at + 1 and not self._fits(at, end, fit, seconds):
            end -= 1
            while end > at + 1 and not self._fits(at, end, fit, seconds):
                end -= 1
        else:
            while end < last and self._fits(at, end + 1, fit, seconds):
                end += 1
        self._guess = end - at
        return end

    def _fits(self, first: int, stop: int, fit: JobFit, seconds: Ints | None) -> bool:
        events, size, stored, first_bytes = self._runs.lists
        n_events = events[stop] - events[first]
        limit = self._settings.events_limit
        if limit is not None and n_events > limit:
            return False
        walltime = math.nan
        if seconds is not None:
            walltime = self._model.base_walltime_s + int(seconds[stop] - seconds[first])
        input_bytes = stored[stop] - stored[first] + first_bytes[first]
        return fit.fits(n_events, size[stop] - size[first], input_bytes, walltime)

    def jobs(self, pieces: Sequence[CutPiece]) -> CutJobs:
        """The jobs of all ``pieces`` with their figures."""
        if not any(len(piece) for piece in pieces):
            return no_jobs()
        first, stop = (_joined([getattr(piece, name) for piece in pieces]) for name in ("first", "stop"))
        runs = self._runs
        events, size = runs.events[stop] - runs.events[first], runs.size[stop] - runs.size[first]
        stored = runs.input_bytes(first, stop)
        output_mb, disk_mb = _sizes_mb(pieces, events, size, stored)
        return CutJobs(
            first + self._offset,
            stop + self._offset,
            events,
            runs.input_files(first, stop),
            stored,
            output_mb,
            disk_mb,
            _joined([piece.walltime_s for piece in pieces]),
            np.empty(0, dtype=np.int64),
            np.zeros(len(first) + 1, dtype=np.int64),
        )


class FileCutter:
    """Cutter of any chunk: jobs grow file by file, with the files of the secondaries that go with them."""

    def __init__(self, inputs: InputFiles, chunk: int, settings: SplitSettings, model: JobModel) -> None:
        """Prepare the datasets of the chunk."""
        positions = inputs.inputs_of(chunk)
        self._offsets = [int(inputs.offsets[position]) for position in positions]
        self._master = inputs.files_of(positions[0])
        parts = [(inputs.files_of(position), inputs.uses[position]) for position in positions]
        self._settings, self._model = settings, model
        self._sequence = SequentialCutter(parts, settings)
        self._at = self._sequence.start()
        self._events, self._size = effective_events(self._master), effective_bytes(self._master)

    @property
    def files_left(self) -> int:
        """Number of master files that no job has yet."""
        return len(self._master) - self._at.master

    @property
    def next_file(self) -> int:
        """Position of the next master file among those of the chunk."""
        return self._at.master

    def mark(self) -> Position:
        """How far the chunk has been used."""
        return self._at

    def rewind(self, mark: Position) -> None:
        """Give back everything that was cut after ``mark``."""
        self._at = mark

    def cut(self, count: int, limits: CutLimits) -> CutJobs:
        """Up to ``count`` jobs for a queue with these limits; see :class:`JobCutter`."""
        return self.jobs((self.take(count, limits),))

    def take(self, count: int, limits: CutLimits) -> CutPiece:
        """Up to ``count`` jobs for a queue with these limits, without their figures."""
        fit = JobFit(self._settings, self._model, limits)
        seconds = walltimes_s(self._model, limits, self._events, self._size)
        before = None if seconds is None else _before(seconds)

        def walltime_of(job: JobContent) -> float:
            if before is None:
                return math.nan
            return self._model.base_walltime_s + int(before[job.stop] - before[job.first])

        def fits(job: JobContent) -> bool:
            return fit.fits(job.events, job.effective_bytes, job.input_bytes, walltime_of(job))

        jobs: list[JobContent] = []
        walltimes: list[float] = []
        while len(jobs) < count and (following := self._sequence.next_job(self._at, fits)) is not None:
            walltime = walltime_of(following[0])
            if walltime < fit.least_walltime_s:
                break
            jobs.append(following[0])
            walltimes.append(walltime)
            self._at = following[1]
        first, stop = (np.array([getattr(job, name) for job in jobs], dtype=np.int64) for name in ("first", "stop"))
        return CutPiece(first, stop, np.array(walltimes, dtype=np.float64), fit, tuple(jobs))

    def jobs(self, pieces: Sequence[CutPiece]) -> CutJobs:
        """The jobs of all ``pieces`` with their figures."""
        contents = [job for piece in pieces for job in piece.contents]
        if not contents:
            return no_jobs()
        columns = np.array(
            [(j.first, j.stop, j.events, j.effective_bytes, j.input_files, j.input_bytes) for j in contents],
            dtype=np.int64,
        ).T
        first, stop, events, size, files, stored = columns
        shifted = [
            [index + offset for index, offset in zip(job.secondaries, self._offsets[1:], strict=True)]
            for job in contents
        ]
        lengths = np.array([sum(len(index) for index in parts) for parts in shifted], dtype=np.int64)
        extra = [index for parts in shifted for index in parts]
        output_mb, disk_mb = _sizes_mb(pieces, events, size, stored)
        return CutJobs(
            first + self._offsets[0],
            stop + self._offsets[0],
            events,
            files,
            stored,
            output_mb,
            disk_mb,
            _joined([piece.walltime_s for piece in pieces]),
            np.concatenate(extra) if extra else np.empty(0, dtype=np.int64),
            _before(lengths),
        )


def _joined(columns: list[AnyArray]) -> AnyArray:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _sizes_mb(pieces: Sequence[CutPiece], events: Ints, size: Ints, stored: Ints) -> tuple[Floats, Ints]:
    """(J,) output and scratch of the jobs of all ``pieces`` in MB; within a chunk, only direct reading may differ."""
    direct = {piece.fit.reads_directly for piece in pieces}
    if len(direct) == 1:
        copied = direct == {False}
        return pieces[0].fit.sizes_mb(events, size, stored, stored if copied else np.zeros_like(stored))
    each = np.repeat([piece.fit.reads_directly for piece in pieces], [len(piece) for piece in pieces])
    return pieces[0].fit.sizes_mb(events, size, stored, np.where(each, 0, stored))


def _long_enough(walltime_s: Floats, least_s: float) -> int:
    """Number of jobs before the first one whose walltime is known and below the least."""
    short: Bools = walltime_s < least_s
    return int(np.argmax(short)) if bool(short.any()) else len(walltime_s)
