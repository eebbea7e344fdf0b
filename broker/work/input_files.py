"""Input files as columns (F,), the events and bytes that each stands for, and how the files of a dataset are used.

:class:`FileTable` has integer columns; sizes are in bytes. :class:`DatasetUse` says how the files of a secondary
dataset go with the master's, read from the dataset's name, type and attributes.

Source: ATLAS Production Job Brokerage, walltime and disk estimates; ATLAS production brokerage, input chunks; PanDA
data model, jedi_datasets and jedi_dataset_contents.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields

import numpy as np

from broker.domain.arrays import Bools, Ints

#: NULL in a column of integers that is read as fixed-width numbers.
NULL_INTEGER: int = int(np.iinfo(np.int64).min)

#: One megabyte in bytes, as used here; also the size that a file of unknown or zero size counts for.
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
    """(F,) files whose name their owner, (F,), already has in an earlier file.

    >>> repeated_names(np.array([7, 8, 7, 7]), np.array([0, 0, 0, 1])).tolist()
    [False, False, True, False]
    """
    repeated = np.zeros(len(lfn_hash), dtype=np.bool_)
    # one number per pair: equal pairs have equal numbers and hardly any others do, so few pairs are compared
    key = lfn_hash + owner * _SPREADS
    in_order = np.sort(key)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(twice):
        rows = np.flatnonzero(np.isin(key, twice))
        rows = rows[np.lexsort((rows, lfn_hash[rows], owner[rows]))]
        name, owner_of_row = lfn_hash[rows], owner[rows]
        repeated[rows[1:]] = (name[1:] == name[:-1]) & (owner_of_row[1:] == owner_of_row[:-1])
    return repeated


def first_of_each_name(lfn_hash: Ints) -> Ints:
    """Positions of the first row of each distinct file name, ascending."""
    return np.sort(np.unique(lfn_hash, return_index=True)[1])


def unique_totals(files: FileTable) -> tuple[int, int]:
    """Number of distinct files and the sum of their sizes in bytes."""
    first = first_of_each_name(files.lfn_hash)
    return len(first), int(stored_bytes(files)[first].sum())


PSEUDO_NAMES = frozenset({"pseudo_dataset", "seq_number"})
PSEUDO_TYPES = frozenset({"pseudo_input", "pp_input"})

_COUNTED = re.compile(r"^(np|er|ratio|eventRatio|nFilesPerJob)=(\d+(?:\.\d+)?)$")
_DATASET_NAMES = {"eventRatio": "er", "nFilesPerJob": "np", "reusable": "ru", "pseudo": "ps"}


@dataclass(frozen=True)
class DatasetUse:
    """How the files of a secondary dataset go with the master's.

    ``files_per_job`` and ``event_ratio`` are ``None`` when the attributes do not set them; ``ratio`` is secondary files
    per master file.
    """

    nosplit: bool = False
    repeat: bool = False
    reusable: bool = False
    pseudo: bool = False
    files_per_job: int | None = None
    event_ratio: float | None = None
    ratio: float = 1.0
    malformed: tuple[str, ...] = ()

    @property
    def splits_by_ramcount(self) -> bool:
        """Whether only files of the chunk's own ramcount are used."""
        return not ((self.nosplit and self.repeat) or self.reusable)


def parse_attributes(attributes: str | None, name: str | None, type_: str | None) -> DatasetUse:
    """Read the attributes of a dataset (comma separated words and ``key=number``)."""
    flags: set[str] = set()
    counted: dict[str, float] = {}
    malformed: list[str] = []
    for piece in (attributes or "").split(","):
        word = piece.strip()
        match = _COUNTED.match(word)
        if match is not None:
            counted.setdefault(_DATASET_NAMES.get(match.group(1), match.group(1)), float(match.group(2)))
        elif "=" in word and word.split("=")[0] in {"np", "er", "ratio", "eventRatio", "nFilesPerJob"}:
            malformed.append(word[:40])
        elif word:
            flags.add(_DATASET_NAMES.get(word, word))
    per_job = int(counted["np"]) if counted.get("np", 0.0) >= 1 else None
    if per_job is None and name_without_scope(name) == "seq_number":
        per_job = 1
    ratio = counted.get("ratio", 1.0)
    return DatasetUse(
        nosplit="nosplit" in flags,
        repeat="repeat" in flags,
        reusable="ru" in flags,
        pseudo="ps" in flags or type_ in PSEUDO_TYPES or name_without_scope(name) in PSEUDO_NAMES,
        files_per_job=per_job,
        event_ratio=counted["er"] if counted.get("er", 0.0) > 0 else None,
        ratio=ratio if ratio > 0 and math.isfinite(ratio) else 1.0,
        malformed=tuple(malformed),
    )


def name_without_scope(name: str | None) -> str:
    """The part of a dataset name after ``scope:``; the whole name when it has no scope."""
    return (name or "").split(":", 1)[-1]


def scope_and_name(dataset_name: str | None) -> tuple[str, str]:
    """Scope and name of a dataset in the replica catalogue.

    Without ``scope:`` in front, the scope is the first dot-separated field of the name, and the first two for names of
    users and groups. A trailing ``/`` marks a container and is not part of the catalogue's name.
    """
    text = (dataset_name or "").rstrip("/")
    if ":" in text:
        scope, name = text.split(":", 1)
        return scope, name
    fields = text.split(".")
    taken = 2 if fields[0] in {"user", "group"} and len(fields) > 1 else 1
    return ".".join(fields[:taken]), text


def is_container(dataset_name: str | None) -> bool:
    """Whether the name is that of a container."""
    return (dataset_name or "").endswith("/")
