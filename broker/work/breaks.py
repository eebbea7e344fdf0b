"""Where a job has to end: between which two files of a master dataset no job can go on.

Source: ATLAS production brokerage, atomic jobs: event ranges, boundaries, lumi blocks.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.work.input_files import NULL_INTEGER, FileTable
from broker.work.split_settings import WHOLE_BOUNDARY, SplitSettings


def range_breaks(files: FileTable) -> Bools:
    """(F,) true where the events of a file do not continue those of the file before it; true for the first file.

    After the last event of a file the next one starts at event 0. Inside the events of a file the name has to stay.
    """
    result = np.ones(len(files), dtype=np.bool_)
    if len(files) < 2:
        return result
    known = (files.endevent[:-1] != NULL_INTEGER) & (files.startevent[1:] != NULL_INTEGER)
    after = np.where(known, files.endevent[:-1] + 1, 0)
    at_end = (files.nevents[:-1] != NULL_INTEGER) & (after == files.nevents[:-1])
    expected = np.where(at_end, 0, after)
    jumps = files.startevent[1:] != expected
    other_file = ~at_end & (files.lfn_hash[1:] != files.lfn_hash[:-1])
    result[1:] = known & (jumps | other_file)
    return result


def job_breaks(files: FileTable, settings: SplitSettings) -> Bools:
    """(F,) true where no job can hold both a file and the one before it; true for the first file."""
    result = np.zeros(len(files), dtype=np.bool_)
    result[:1] = True
    if len(files) < 2:
        return result
    if settings.continuous:
        result |= range_breaks(files)
    if settings.boundary:
        result[1:] |= files.boundaryid[1:] != files.boundaryid[:-1]
    if settings.by_lumi:
        result[1:] |= files.lumiblocknr[1:] != files.lumiblocknr[:-1]
    return result


def next_breaks(breaks: Bools) -> Ints:
    """(F,) for each file the position of the next file at which a job has to start anew; F when there is none."""
    starts = np.append(np.flatnonzero(breaks), len(breaks))
    positions = np.arange(len(breaks))
    return starts[np.searchsorted(starts, positions, side="right")].astype(np.int64)


def unlimited_files(files: FileTable, settings: SplitSettings) -> Bools:
    """(F,) files whose job ends at its boundary only: no maximum holds. A file without boundary id has no boundary."""
    if settings.boundary != WHOLE_BOUNDARY:
        return np.zeros(len(files), dtype=np.bool_)
    return np.asarray(files.boundaryid != NULL_INTEGER)
