"""Cut the jobs of a chunk file by file, with the matching files of its secondary datasets.

The exact path for every chunk: with secondaries, event ranges, boundaries and repeated names. Chunks without
secondaries take the faster path of :mod:`broker.work.cutting`, which gives the same jobs. Source: ATLAS production
brokerage, atomic jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Ints
from broker.work.input_files import NULL_INTEGER, DatasetUse, FileTable, effective_bytes, effective_events, stored_bytes
from broker.work.split_settings import MAX_FILES_IN_ALL, SplitSettings, job_breaks, unlimited_files


@dataclass(frozen=True)
class Position:
    """How far a chunk has been used: master files, and files of each secondary."""

    master: int
    secondaries: tuple[int, ...]


@dataclass(frozen=True)
class JobContent:
    """Input of a job: master files ``first`` to ``stop`` (exclusive), and positions in each secondary.

    ``events`` and ``effective_bytes`` are those of its master files; ``input_files`` and ``input_bytes`` those of all
    its distinct files.
    """

    first: int
    stop: int
    secondaries: tuple[Ints, ...]
    events: int
    effective_bytes: int
    input_files: int
    input_bytes: int


Fits = Callable[[JobContent], bool]


class _Columns:
    """A dataset's files as prefix sums and lists."""

    def __init__(self, files: FileTable, use: DatasetUse) -> None:
        self.use = use
        self.count = len(files)
        self.files = files
        self.names: list[int] = files.lfn_hash.tolist()
        self.bytes: list[int] = stored_bytes(files).tolist()
        self.events_before = np.concatenate([[0], np.cumsum(effective_events(files))]).astype(np.int64)
        self.size_before = np.concatenate([[0], np.cumsum(effective_bytes(files))]).astype(np.int64)
        self.has_ranges = bool(np.any(files.startevent != NULL_INTEGER))


class SequentialCutter:
    """Cuts jobs out of one chunk. ``inputs`` are its datasets, master first, each with how it is used.

    With two files a job, five master files, and a secondary of three files with half a file for each master file,
    the jobs read master files [0, 1], [2, 3], [4] and secondary files [0], [1], [2].
    """

    def __init__(self, inputs: list[tuple[FileTable, DatasetUse]], settings: SplitSettings) -> None:
        """Prepare the chunk; nothing is cut yet."""
        self._master = _Columns(*inputs[0])
        self._others = [_Columns(*item) for item in inputs[1:]]
        self._settings = settings
        self._breaks = job_breaks(self._master.files, settings)
        self._unlimited = unlimited_files(self._master.files, settings)
        first_events = settings.continuous and bool(self._others) and not self._master.has_ranges
        self._counts_secondary_events = first_events and settings.events_per_job is not None

    def start(self) -> Position:
        """The state before the first file: nothing used yet, no job begun."""
        return Position(0, tuple(0 for _ in self._others))

    def next_job(self, position: Position, fits: Fits | None = None) -> tuple[JobContent, Position] | None:
        """The next job and where it ends; ``None`` when no master file is left.

        The first step is always taken, however large; the job grows as long as ``fits`` holds with the next file.
        """
        if position.master >= self._master.count:
            return None
        settings = self._settings
        if settings.takes_files_at_once:
            stop = min(position.master + settings.files_limit, self._master.count)
            job = self._content(position, stop)
            return job, self._after(position, job)
        stop = position.master + 1
        job = self._content(position, stop)
        while stop < self._master.count and not self._breaks[stop]:
            longer = self._content(position, stop + 1)
            if not self._unlimited[position.master] and not self._within(longer, fits):
                break
            job, stop = longer, stop + 1
        return job, self._after(position, job)

    def _within(self, job: JobContent, fits: Fits | None) -> bool:
        settings = self._settings
        if job.stop - job.first > settings.files_limit or self._files_in_all(job) > MAX_FILES_IN_ALL:
            return False
        limit = settings.events_limit
        if limit is not None and self._limited_events(job) > limit:
            return False
        return fits is None or fits(job)

    def _files_in_all(self, job: JobContent) -> int:
        return job.stop - job.first + sum(len(index) for index in job.secondaries)

    def _limited_events(self, job: JobContent) -> int:
        if not self._counts_secondary_events:
            return job.events
        first = self._others[0]
        events = np.diff(first.events_before)
        return int(events[job.secondaries[0]].sum())

    def _content(self, position: Position, stop: int) -> JobContent:
        first = position.master
        events = int(self._master.events_before[stop] - self._master.events_before[first])
        secondaries = tuple(
            self._taken(columns, used, first, stop, events)
            for columns, used in zip(self._others, position.secondaries, strict=True)
        )
        sizes = dict(zip(self._master.names[first:stop], self._master.bytes[first:stop], strict=True))
        for columns, index in zip(self._others, secondaries, strict=True):
            for i in index.tolist():
                sizes.setdefault(columns.names[i], columns.bytes[i])
        size = int(self._master.size_before[stop] - self._master.size_before[first])
        return JobContent(first, stop, secondaries, events, size, len(sizes), sum(sizes.values()))

    def _taken(self, columns: _Columns, used: int, first: int, stop: int, events: int) -> Ints:
        """Positions of the files of a secondary that go with master files ``first`` to ``stop``."""
        use = columns.use
        if use.nosplit:
            return np.arange(columns.count, dtype=np.int64)
        if use.files_per_job is None and use.event_ratio is None and self._settings.boundary:
            boundary = self._master.files.boundaryid[first]
            if boundary != NULL_INTEGER:
                return np.flatnonzero(columns.files.boundaryid == boundary).astype(np.int64)
        return self._run_of(columns, used, stop - first, events)

    def _run_of(self, columns: _Columns, used: int, master_files: int, events: int) -> Ints:
        use = columns.use
        if use.files_per_job is not None:
            wanted = use.files_per_job
        elif use.event_ratio is not None:
            wanted = _files_for_events(columns, used, events * use.event_ratio)
        else:
            wanted = math.ceil(master_files * use.ratio)
        if use.reusable and used + wanted > columns.count:
            used = 0
            if use.event_ratio is not None:
                wanted = _files_for_events(columns, used, events * use.event_ratio)
        return np.arange(used, min(used + wanted, columns.count), dtype=np.int64)

    def _after(self, position: Position, job: JobContent) -> Position:
        moved = []
        for columns, used, index in zip(self._others, position.secondaries, job.secondaries, strict=True):
            fixed = columns.use.nosplit or not len(index)
            ahead = used if fixed else int(index[-1]) + 1
            moved.append(ahead % columns.count if columns.use.repeat and columns.count else ahead)
        return Position(job.stop, tuple(moved))


def _files_for_events(columns: _Columns, used: int, wanted_events: float) -> int:
    """Number of files from ``used`` on that hold at least ``wanted_events``; one more than are left if too few.

    Three files of 100, 150 and 150 events, and the sums before each and after the last:

    >>> from types import SimpleNamespace as Table
    >>> files = Table(events_before=np.array([0, 100, 250, 400]))
    >>> [_files_for_events(files, used, wanted) for used, wanted in ((0, 100), (0, 101), (1, 150), (1, 999))]
    [1, 2, 1, 3]
    """
    target = float(columns.events_before[used]) + wanted_events
    stop = int(np.searchsorted(columns.events_before, target, side="left"))
    return max(stop - used, 1)
