"""Ready input files as columns, and how many events and bytes each of them stands for.

Source: ATLAS Production Job Brokerage, walltime and disk estimates; PanDA data model, jedi_dataset_contents.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from broker.domain.arrays import Bools, Ints

#: Stands for NULL in a column of integers that is read as fixed-width numbers.
NULL_INTEGER: int = int(np.iinfo(np.int64).min)

#: One megabyte of this page, in bytes; also what a file of unknown or zero size counts for.
MEGABYTE_BYTES = 1024 * 1024

#: No file counts for more events or bytes, whatever its row claims, so that the sums over a chunk stay exact.
MAX_FILE_EVENTS = 10**12
MAX_FILE_BYTES = 2**49

#: An odd number whose multiples lie far apart, modulo 2**64: 2**64 over the golden ratio.
_SPREADS = np.int64(0x9E3779B97F4A7C15 - 2**64)


@dataclass(frozen=True)
class FileTable:
    """Input files as integer columns of length F; :data:`NULL_INTEGER` is NULL.

    ``lfn_hash`` is a 64-bit hash of the logical file name: equal names, equal hashes. ``fsize_bytes`` is the size of
    the whole file, ``nevents`` its events; ``startevent`` to ``endevent`` (inclusive) the range the row stands for.
    """

    fileid: Ints
    lfn_hash: Ints
    fsize_bytes: Ints
    nevents: Ints
    startevent: Ints
    endevent: Ints
    boundaryid: Ints
    lumiblocknr: Ints
    ramcount_mb: Ints
    attemptnr: Ints

    def __len__(self) -> int:
        return len(self.fileid)

    def rows(self, index: Ints | slice) -> FileTable:
        """The files at ``index``, in that order."""
        return FileTable(*(getattr(self, name)[index] for name in _NAMES))


_NAMES = tuple(field.name for field in fields(FileTable))


def joined(tables: list[FileTable]) -> FileTable:
    """The files of all ``tables``, one table after the other."""
    if not tables:
        return FileTable(*(np.empty(0, dtype=np.int64) for _ in _NAMES))
    return FileTable(*(np.concatenate([getattr(table, name) for table in tables]) for name in _NAMES))


def _has_range(files: FileTable) -> Bools:
    return np.asarray((files.startevent != NULL_INTEGER) & (files.endevent != NULL_INTEGER))


def effective_events(files: FileTable) -> Ints:
    """Events that each row stands for: its range (at least 1), else all events of the file, else 1."""
    ranged = np.maximum(files.endevent - files.startevent + 1, 1)
    whole = np.where(files.nevents > 0, files.nevents, 1)
    return np.minimum(np.where(_has_range(files), ranged, whole), MAX_FILE_EVENTS).astype(np.int64)


def effective_bytes(files: FileTable) -> Ints:
    """Bytes that each row stands for: the file's size scaled to the event range, in whole bytes.

    Scaled only where size, range and number of events are all known. Nothing left or nothing known counts as 1 MB.
    """
    size = stored_bytes(files)
    scalable = _has_range(files) & (files.nevents > 0) & (size > 0)
    length = np.where(scalable, files.endevent - files.startevent + 1, 0)
    divisor = np.where(scalable, files.nevents, 1)
    # size = whole * divisor + rest keeps every product below 2**63 for any file that a storage can hold
    scaled = (size // divisor) * length + (size % divisor) * length // divisor
    result = np.where(scalable, scaled, size)
    return np.where(result <= 0, MEGABYTE_BYTES, np.minimum(result, MAX_FILE_BYTES)).astype(np.int64)


def stored_bytes(files: FileTable) -> Ints:
    """Size of each whole file in bytes; an unknown or negative size adds nothing."""
    return np.clip(files.fsize_bytes, 0, MAX_FILE_BYTES).astype(np.int64)


def repeated_names(lfn_hash: Ints, owner: Ints) -> Bools:
    """(F,) files of a name that their owner, (F,), has before.

    >>> repeated_names(np.array([7, 8, 7, 7]), np.array([0, 0, 0, 1])).tolist()
    [False, False, True, False]
    """
    repeated = np.zeros(len(lfn_hash), dtype=np.bool_)
    # one number for both: equal pairs have equal ones, and hardly any others do, so that few pairs are looked at
    key = lfn_hash + owner * _SPREADS
    in_order = np.sort(key)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(twice):
        rows = np.flatnonzero(np.isin(key, twice))
        rows = rows[np.lexsort((rows, lfn_hash[rows], owner[rows]))]
        name, of = lfn_hash[rows], owner[rows]
        repeated[rows[1:]] = (name[1:] == name[:-1]) & (of[1:] == of[:-1])
    return repeated


def first_of_each_name(lfn_hash: Ints) -> Ints:
    """Positions of the first row of each distinct file name, ascending."""
    return np.sort(np.unique(lfn_hash, return_index=True)[1])


def unique_totals(files: FileTable) -> tuple[int, int]:
    """Number of distinct files and the sum of their sizes in bytes."""
    first = first_of_each_name(files.lfn_hash)
    return len(first), int(stored_bytes(files)[first].sum())
