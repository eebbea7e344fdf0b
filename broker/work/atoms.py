"""The smallest jobs that a task allows: what the estimates of disk, walltime and output are made of.

Source: ATLAS Production Job Brokerage, nEvents of the smallest job allowed; atomic jobs. Each estimate is the largest
over the jobs of the chunk, so that every job of the chunk fits where the estimate fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.work.breaks import job_breaks, next_breaks, range_breaks, unlimited_files
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.datasets import DatasetUse
from broker.work.input_files import (
    MEGABYTE_BYTES,
    FileTable,
    effective_bytes,
    effective_events,
    first_of_each_name,
    stored_bytes,
    unique_totals,
)
from broker.work.sequential import SequentialCutter
from broker.work.split_settings import MAX_FILES_IN_ALL, SplitSettings, smallest_job


@dataclass(frozen=True)
class AtomSizes:
    """Largest events, effective MB of master files, and bytes of all distinct files over the jobs of a chunk."""

    events: int
    mb: float
    bytes: int


def atoms_file_by_file(inputs: list[tuple[FileTable, DatasetUse]], settings: SplitSettings) -> AtomSizes:
    """Atomic jobs of any chunk, by cutting them one after another. ``inputs``: master first."""
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
    """Atomic jobs of a chunk without secondaries, with sums over runs of files."""
    if not len(files):
        return AtomSizes(0, 0.0, 0)
    starts = job_starts(files, smallest_job(settings))
    events, size = effective_events(files), effective_bytes(files)
    if len(starts) == len(files):
        largest = int(stored_bytes(files).max())
        return AtomSizes(int(events.max()), float(size.max()) / MEGABYTE_BYTES, largest)
    job = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(files))))
    # the same name may come in several event ranges: inside a job its bytes count once
    order = np.lexsort((np.arange(len(files)), files.lfn_hash, job))
    repeated = np.zeros(len(files), dtype=np.bool_)
    name, owner = files.lfn_hash[order], job[order]
    repeated[order[1:]] = (name[1:] == name[:-1]) & (owner[1:] == owner[:-1])
    distinct_bytes = np.where(repeated, 0, stored_bytes(files))
    return AtomSizes(
        int(np.add.reduceat(events, starts).max()),
        float(np.add.reduceat(size, starts).max()) / MEGABYTE_BYTES,
        int(np.add.reduceat(distinct_bytes, starts).max()),
    )


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
    """Sizes of every chunk. Files of pseudo datasets are no input data: they are in no total of files or bytes."""
    rows = []
    for chunk in range(len(chunks)):
        positions = inputs.inputs_of(chunk)
        master = inputs.files_of(positions[0])
        if len(positions) == 1:
            atom = atoms_by_sums(master, settings[chunk])
        else:
            atom = atoms_file_by_file([(inputs.files_of(i), inputs.uses[i]) for i in positions], settings[chunk])
        files, size = _totals(inputs, positions, master)
        events = effective_events(master).sum()
        rows.append(
            (len(master), files, size, atom.events, atom.mb, atom.bytes, longest_run_events(master), float(events))
        )
    table = np.array(rows, dtype=np.float64).reshape(-1, 8)
    return ChunkSizes(table[:, 0].astype(np.int64), *(table[:, column] for column in range(1, 8)))


def _totals(inputs: InputFiles, positions: range, master: FileTable) -> tuple[int, int]:
    real = [i for i in positions if not inputs.uses[i].pseudo]
    if not real:
        return 0, 0
    if len(positions) == 1:
        return unique_totals(master)
    parts = [inputs.files_of(i) for i in real]
    names = np.concatenate([part.lfn_hash for part in parts])
    first = first_of_each_name(names)
    return len(first), int(np.concatenate([stored_bytes(part) for part in parts])[first].sum())
