"""How a chunk is cut into jobs, as JSON: kept with its decision, so that its jobs can be given out again.

Kept of each file is what cutting reads of it, and no name: equal names only have equal numbers. A column in which all
files agree is one value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.work import Work
from broker.domain.work_codec import StoredWork, WorkCorruptError
from broker.work.assemble import CycleWork
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.datasets import DatasetUse
from broker.work.input_files import NULL_INTEGER, FileTable
from broker.work.split_settings import SplitSettings

#: Columns of files that decide how jobs are cut, beside which files have the same name.
_COLUMNS = ("fsize_bytes", "nevents", "startevent", "endevent", "boundaryid", "lumiblocknr")

#: Files that one stored chunk may claim to have.
MAX_FILES = 5_000_000

SettingsT = TypeVar("SettingsT", SplitSettings, DatasetUse)


def encode_cut(work: CycleWork, row: int) -> dict[str, Any]:
    """What is needed to cut the chunk at ``row`` again."""
    inputs = work.inputs
    positions = inputs.inputs_of(row)
    span = slice(int(inputs.offsets[positions.start]), int(inputs.offsets[positions.stop]))
    files = inputs.files.rows(span)
    columns = {name: _packed(getattr(files, name)) for name in _COLUMNS}
    return {
        "settings": _message(work.settings[row], SplitSettings()),
        "inputs": [
            [bool(inputs.is_master[at]), int(inputs.offsets[at + 1] - inputs.offsets[at]), _use(inputs.uses[at])]
            for at in positions
        ],
        "names": _names(files.lfn_hash),
        "files": columns,
        "held": _held(work, row),
    }


def _packed(column: Ints) -> int | list[int]:
    if not len(column) or (column == column[0]).all():
        return int(column[0]) if len(column) else NULL_INTEGER
    return column.tolist()  # type: ignore[no-any-return]


def _names(lfn_hash: Ints) -> list[int] | None:
    """The number of each file's name; None when no two files have the same."""
    known, number = np.unique(lfn_hash, return_inverse=True)
    return None if len(known) == len(lfn_hash) else number.tolist()


def _message(settings: Any, default: Any) -> dict[str, Any]:
    """The fields that are not as in ``default``."""
    names = [field.name for field in dataclasses.fields(settings)]
    return {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(default, name)}


def _use(use: DatasetUse) -> dict[str, Any]:
    return _message(dataclasses.replace(use, malformed=()), DatasetUse())


def _held(work: CycleWork, row: int) -> dict[str, list[int]]:
    """For replicas of the chunk that hold some of the files: where runs of held and other files end, held first."""
    first, last = np.searchsorted(work.work.inputs.chunk, (row, row + 1))
    low, high = np.searchsorted(work.work.replicas.input, (first, last))
    runs = {}
    for replica in range(int(low), int(high)):
        held = work.held[replica]
        if held is not None:
            turns = np.flatnonzero(np.diff(np.concatenate([[True], held, [not held[-1] if len(held) else False]])))
            runs[str(replica - int(low))] = turns.tolist()
    return runs


def cycle_work(stored: StoredWork) -> CycleWork:
    """The chunks with all that is needed to cut jobs out of them.

    Raises:
        WorkCorruptError: for some chunk that was not stored, or is damaged.
    """
    try:
        return _cycle_work(stored.work, [_Cut(cut) for cut in stored.cuts])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise WorkCorruptError(f"how a stored chunk is cut cannot be read: {error!r}") from error


class _Cut:
    """The stored form of one chunk, read; its columns of files still as they are stored."""

    def __init__(self, reported: Mapping[str, Any] | None) -> None:
        if reported is None:
            raise ValueError("it was not stored")
        self.settings = _read(SplitSettings, reported["settings"])
        self.is_master = [bool(master) for master, _, _ in reported["inputs"]]
        self.sizes = [int(size) for _, size, _ in reported["inputs"]]
        self.uses = [_read(DatasetUse, use) for _, _, use in reported["inputs"]]
        self.size = sum(self.sizes)
        if not self.sizes or min(self.sizes) < 0 or self.size > MAX_FILES:
            raise ValueError(f"{self.size} files")
        self.names: list[int] | None = reported["names"]
        self.columns = [reported["files"][name] for name in _COLUMNS]
        self.held: Mapping[str, list[int]] = reported["held"]


def _read(kind: type[SettingsT], reported: Mapping[str, Any]) -> SettingsT:
    return kind(**reported)


def _files(cuts: Sequence[_Cut]) -> FileTable:
    """The files of all chunks, one chunk after the other."""
    sizes = np.array([cut.size for cut in cuts], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    nothing = np.full(int(sizes.sum()), NULL_INTEGER, dtype=np.int64)
    names = np.arange(len(nothing), dtype=np.int64) - np.repeat(first, sizes)  # no two of a chunk have the same
    _fill(names, {at: cut.names for at, cut in enumerate(cuts) if cut.names is not None}, first, sizes)
    columns = {}
    for name, stored in zip(_COLUMNS, zip(*(cut.columns for cut in cuts), strict=True), strict=True):
        listed = {at: one for at, one in enumerate(stored) if not isinstance(one, int)}
        same = np.array([NULL_INTEGER if at in listed else one for at, one in enumerate(stored)], dtype=np.int64)
        columns[name] = np.repeat(same, sizes)
        _fill(columns[name], listed, first, sizes)
    unread = {name: nothing for name in ("fileid", "ramcount_mb", "attemptnr")}
    return FileTable(lfn_hash=names, **columns, **unread)


def _fill(column: Ints, listed: Mapping[int, list[int]], first: Ints, sizes: Ints) -> None:
    """Put in the values of the chunks that have one for each file."""
    for chunk, values in listed.items():
        given, size = np.array(values, dtype=np.int64), int(sizes[chunk])
        if given.shape != (size,):
            raise ValueError(f"a column of {given.shape} for {size} files")
        column[first[chunk] : first[chunk] + size] = given


def _cycle_work(work: Work, cuts: Sequence[_Cut]) -> CycleWork:
    chunks = work.chunks
    sizes = np.array([size for cut in cuts for size in cut.sizes], dtype=np.int64)
    chunk = np.repeat(np.arange(len(cuts)), [len(cut.sizes) for cut in cuts])
    inputs = InputFiles(
        chunk,
        np.arange(len(chunk), dtype=np.int64),
        np.array([master for cut in cuts for master in cut.is_master], dtype=np.bool_),
        tuple(use for cut in cuts for use in cut.uses),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        _files(cuts),
    )
    place = np.arange(len(chunks), dtype=np.int64)
    table = ChunkTable(place, place, chunks.ramcount, chunks.merging, chunks.scout, chunks.jumbo)
    return CycleWork(work, table, inputs, tuple(cut.settings for cut in cuts), tuple(_all_held(work, cuts)))


def _all_held(work: Work, cuts: Sequence[_Cut]) -> list[Bools | None]:
    held: list[Bools | None] = []
    replica_chunk = work.inputs.chunk[work.replicas.input]
    first = np.searchsorted(replica_chunk, np.arange(len(cuts))).tolist()
    for replica, chunk in enumerate(replica_chunk.tolist()):
        turns = cuts[chunk].held.get(str(replica - first[chunk]))
        held.append(None if turns is None else _mask(turns))
    return held


def _mask(turns: list[int]) -> Bools:
    """The mask of which the runs, beginning with one of true, end at ``turns``."""
    start, runs = 0, []
    for at, end in enumerate(turns):
        if not start <= end <= MAX_FILES:
            raise ValueError("runs of held files that do not rise")
        runs.append((b"\0" if at % 2 else b"\1") * (end - start))
        start = end
    if not runs:
        raise ValueError("no run of held files")
    return np.frombuffer(b"".join(runs), dtype=np.bool_)
