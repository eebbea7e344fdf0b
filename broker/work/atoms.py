"""The smallest jobs that a task allows: the basis of the estimates of disk, walltime and output.

Source: ATLAS Production Job Brokerage, nEvents of the smallest job allowed; atomic jobs. Each estimate is the largest
over the jobs of the chunk, so that every job of the chunk fits where the estimate fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import (
    MEGABYTE_BYTES,
    DatasetUse,
    FileTable,
    effective_bytes,
    effective_events,
    first_of_each_name,
    repeated_names,
    stored_bytes,
)
from broker.work.sequential import SequentialCutter
from broker.work.split_settings import (
    MAX_FILES_IN_ALL,
    SplitSettings,
    job_breaks,
    next_breaks,
    range_breaks,
    smallest_job,
    unlimited_files,
)


@dataclass(frozen=True)
class AtomSizes:
    """Largest events, effective MB of master files, and bytes of all distinct files over the jobs of a chunk."""

    events: int
    mb: float
    bytes: int


def atoms_file_by_file(inputs: list[tuple[FileTable, DatasetUse]], settings: SplitSettings) -> AtomSizes:
    """Sizes of the atomic jobs of any chunk, cut one after another. ``inputs``: master first."""
    cutter = SequentialCutter(inputs, smallest_job(settings))
    position, events, size, total = cutter.start(), 0, 0, 0
    while (cut := cutter.next_job(position)) is not None:
        job, position = cut
        events, size, total = max(events, job.events), max(size, job.effective_bytes), max(total, job.input_bytes)
    return AtomSizes(events, size / MEGABYTE_BYTES, total)


def job_starts(files: FileTable, settings: SplitSettings) -> Ints:
    """First files of the atomic jobs of a master dataset without secondaries, ascending."""
    count = len(files)
    if settings.takes_files_at_once:
        return np.arange(0, count, settings.files_limit, dtype=np.int64)
    position = np.arange(count, dtype=np.int64)
    stop = position + min(settings.files_limit, MAX_FILES_IN_ALL)
    limit = settings.events_limit
    if limit is not None:
        before = np.concatenate([[0], np.cumsum(effective_events(files))]).astype(np.int64)
        stop = np.minimum(stop, np.searchsorted(before, before[:-1] + limit, side="right") - 1)
    last = next_breaks(job_breaks(files, settings))
    stop = np.where(unlimited_files(files, settings), last, np.minimum(stop, last))
    following = np.maximum(stop, position + 1).tolist()
    starts = []
    at = 0
    while at < count:
        starts.append(at)
        at = following[at]
    return np.array(starts, dtype=np.int64)


def atoms_by_sums(files: FileTable, settings: SplitSettings) -> AtomSizes:
    """Sizes of the atomic jobs of a chunk without secondaries, from sums over runs of files."""
    if not len(files):
        return AtomSizes(0, 0.0, 0)
    starts = job_starts(files, smallest_job(settings))
    events, size = effective_events(files), effective_bytes(files)
    if len(starts) == len(files):
        largest = int(stored_bytes(files).max())
        return AtomSizes(int(events.max()), float(size.max()) / MEGABYTE_BYTES, largest)
    job = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(files))))
    return AtomSizes(
        int(np.add.reduceat(events, starts).max()),
        float(np.add.reduceat(size, starts).max()) / MEGABYTE_BYTES,
        int(np.add.reduceat(distinct_bytes(files, job), starts).max()),
    )


def distinct_bytes(files: FileTable, job: Ints) -> Ints:
    """(F,) sizes of files; 0 for those whose name their job, (F,), already has.

    The same name may occur with several event ranges: its bytes count once per job.
    """
    return np.where(repeated_names(files.lfn_hash, job), 0, stored_bytes(files))


def longest_run_events(files: FileTable) -> int:
    """Events of the longest run of files whose event ranges follow each other."""
    if not len(files):
        return 0
    starts = np.flatnonzero(range_breaks(files))
    return int(np.add.reduceat(effective_events(files), starts).max())


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes of the chunks (length T), as the columns of WorkTable of the same names."""

    n_files: Ints
    total_files: Floats
    total_bytes: Floats
    atom_events: Floats
    atom_mb: Floats
    atom_bytes: Floats
    longest_run_events: Floats
    ready_events: Floats


def chunk_sizes(chunks: ChunkTable, inputs: InputFiles, settings: tuple[SplitSettings, ...]) -> ChunkSizes:
    """Sizes of every chunk. Files of pseudo datasets are not input data and count in no total of files or bytes."""
    positions = [inputs.inputs_of(chunk) for chunk in range(len(chunks))]
    masters = np.array([of_chunk[0] for of_chunk in positions], dtype=np.int64)
    first, stop = inputs.offsets[masters], inputs.offsets[masters + 1]
    events = inputs.sums.sums[0]
    totals = np.array([_totals(inputs, of_chunk) for of_chunk in positions], dtype=np.float64).reshape(-1, 2)
    atoms = _atoms(inputs, positions, settings)
    return ChunkSizes(
        n_files=(stop - first).astype(np.int64),
        total_files=totals[:, 0],
        total_bytes=totals[:, 1],
        atom_events=atoms[:, 0],
        atom_mb=atoms[:, 1],
        atom_bytes=atoms[:, 2],
        longest_run_events=_longest_runs(inputs)[masters],
        ready_events=(events[stop] - events[first]).astype(np.float64),
    )


def _atoms(inputs: InputFiles, positions: Sequence[range], settings: Sequence[SplitSettings]) -> Floats:
    """(T, 3) the columns of :class:`AtomSizes` of each chunk."""
    smallest = [smallest_job(rules) for rules in settings]
    atoms = np.zeros((len(positions), 3))
    rows = [row for row, at in enumerate(positions) if len(at) == 1 and smallest[row].takes_files_at_once]
    limits = np.array([smallest[row].files_limit for row in rows], dtype=np.int64)
    atoms[rows] = _taken_at_once(inputs, np.array([positions[row][0] for row in rows], dtype=np.int64), limits)
    for row in sorted(set(range(len(positions))) - set(rows)):
        at = positions[row]
        if len(at) == 1:
            atom = atoms_by_sums(inputs.files_of(at[0]), settings[row])
        else:
            atom = atoms_file_by_file([(inputs.files_of(i), inputs.uses[i]) for i in at], settings[row])
        atoms[row] = atom.events, atom.mb, atom.bytes
    return atoms


def _taken_at_once(inputs: InputFiles, masters: Ints, limits: Ints) -> Floats:
    """(T, 3) the atoms of chunks without secondaries whose jobs take ``limits`` files each, for all chunks at once."""
    atoms = np.zeros((len(masters), 3))
    some = np.flatnonzero(inputs.offsets[masters + 1] > inputs.offsets[masters])
    if not len(some):
        return atoms
    first, limits = inputs.offsets[masters[some]], limits[some]
    size = inputs.offsets[masters[some] + 1] - first
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    position = within + np.repeat(first, size)
    starts = np.flatnonzero(within % np.repeat(limits, size) == 0)
    job = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(within))))
    events, stood_for = (column[position] for column in inputs.sums.columns[:2])
    repeated = repeated_names(inputs.files.lfn_hash[position], job)
    columns = events, stood_for, np.where(repeated, 0, stored_bytes(inputs.files)[position])
    of_jobs = np.array([np.add.reduceat(column, starts) for column in columns])
    largest = np.maximum.reduceat(of_jobs, np.searchsorted(starts, np.cumsum(size) - size), axis=1)
    atoms[some] = largest.T
    atoms[:, 1] /= MEGABYTE_BYTES
    return atoms


def _longest_runs(inputs: InputFiles) -> Floats:
    """(I,) :func:`longest_run_events` of each input."""
    longest = np.zeros(len(inputs))
    some = np.flatnonzero(inputs.offsets[1:] > inputs.offsets[:-1])
    if len(some):
        breaks = range_breaks(inputs.files)
        breaks[inputs.offsets[some]] = True
        starts = np.flatnonzero(breaks)
        runs = np.add.reduceat(inputs.sums.columns[0], starts)
        longest[some] = np.maximum.reduceat(runs, np.searchsorted(starts, inputs.offsets[some]))
    return longest


def _totals(inputs: InputFiles, positions: range) -> tuple[int, int]:
    real = [i for i in positions if not inputs.uses[i].pseudo]
    if not real:
        return 0, 0
    if len(positions) == 1:
        return inputs.sums.distinct_totals[positions[0]]
    parts = [inputs.files_of(i) for i in real]
    names = np.concatenate([part.lfn_hash for part in parts])
    first = first_of_each_name(names)
    return len(first), int(np.concatenate([stored_bytes(part) for part in parts])[first].sum())
