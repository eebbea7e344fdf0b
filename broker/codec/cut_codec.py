"""How a chunk is cut into jobs, as JSON: stored with its decision, so that its jobs can be made again.

For each file, only the columns that cutting reads are stored, without its name: equal names have equal numbers. A
column in which all files agree is one value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from broker.codec.column_texts import to_json
from broker.codec.work_codec import StoredWork, WorkCorruptError
from broker.domain.arrays import Bools, Ints
from broker.domain.work import Work
from broker.work.assemble import CycleWork
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import NULL_INTEGER, DatasetUse, FileTable, repeated_names
from broker.work.split_settings import SplitSettings

#: Columns of files that decide how jobs are cut, besides which files have the same name.
_COLUMNS = ("fsize_bytes", "nevents", "startevent", "endevent", "boundaryid", "lumiblocknr")

#: Files that one stored chunk may claim to have.
MAX_FILES = 5_000_000

SettingsT = TypeVar("SettingsT", SplitSettings, DatasetUse)


class CutEncoder:
    """Encode how each chunk of a cycle is cut; files are scanned for all chunks at once."""

    def __init__(self, work: CycleWork) -> None:
        self._work, inputs = work, work.inputs
        rows = np.arange(len(work.work.chunks))
        bounds = [inputs.inputs_of(row) for row in rows.tolist()]
        first = inputs.offsets[[span.start for span in bounds]]
        size = inputs.offsets[[span.stop for span in bounds]] - first
        self._inputs, self._first, self._size = bounds, first.tolist(), size.tolist()
        self._offsets = inputs.offsets.tolist()
        self._same = {name: _same(getattr(inputs.files, name), first, size) for name in _COLUMNS}
        self._repeats = _repeats(inputs.files.lfn_hash, first, size)
        of_chunks = np.searchsorted(work.work.inputs.chunk, np.append(rows, len(rows)))
        self._replicas: list[int] = np.searchsorted(work.work.replicas.input, of_chunks).tolist()
        self._messages: dict[int, str] = {}

    def encode(self, row: int) -> str:
        """Encode how the chunk at ``row`` is cut, as JSON: settings, inputs and files."""
        inputs, names = self._work.inputs, "null"
        span = slice(self._first[row], self._first[row] + self._size[row])
        if row in self._repeats:
            names = to_json(_names(inputs.files.lfn_hash[span]))
        parts = [
            f'{{"settings":{self._message(self._work.settings[row], _SETTINGS)}',
            f'"inputs":[{",".join([self._input(one) for one in self._inputs[row]])}]',
            f'"names":{names}',
            f'"files":{{{",".join([self._column(name, row, span) for name in _COLUMNS])}}}',
            f'"held":{{{",".join(self._held(row))}}}}}',
        ]
        return ",".join(parts)

    def _input(self, one: int) -> str:
        """Encode one input: whether it is the master, its number of files, and how they are used."""
        inputs = self._work.inputs
        master = "true" if inputs.is_master[one] else "false"
        return f"[{master},{self._offsets[one + 1] - self._offsets[one]},{self._message(inputs.uses[one], _USE)}]"

    def _column(self, name: str, row: int, span: slice) -> str:
        same = self._same[name][row]
        return f'"{name}":{to_json(getattr(self._work.inputs.files, name)[span].tolist()) if same is None else same}'

    def _message(self, settings: Any, defaults: Sequence[tuple[str, Any]]) -> str:
        """The fields that differ from their defaults; chunks share their settings."""
        message = self._messages.get(id(settings))
        if message is None:
            values = ((name, getattr(settings, name), default) for name, default in defaults)
            message = to_json({name: value for name, value, default in values if value != default})
            self._messages[id(settings)] = message
        return message

    def _held(self, row: int) -> list[str]:
        """For replicas that hold some of the files: the ends of runs of held and other files, held first."""
        low, high = self._replicas[row], self._replicas[row + 1]
        masks = ((replica - low, self._work.held[replica]) for replica in range(low, high))
        return [f'"{at}":{_ends_of_runs(held)}' for at, held in masks if held is not None]


def _ends_of_runs(held: Bools) -> str:
    """Ends of runs as JSON; the first run has held files, and is empty if the first file is not held."""
    ends = (held[1:] != held[:-1]).nonzero()[0] + 1
    first = [] if len(held) and held[0] else [0]
    return to_json([*first, *ends.tolist(), *([len(held)] if len(held) else [])])


def _defaults(settings: Any, left_out: str = "") -> list[tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(settings) if field.name != left_out]
    return [(name, getattr(settings, name)) for name in names]


_SETTINGS, _USE = _defaults(SplitSettings()), _defaults(DatasetUse(), "malformed")


def _same(column: Ints, first: Ints, size: Ints) -> list[int | None]:
    """(T,) the value in which all files of a chunk agree; None where they do not."""
    same = np.full(len(first), NULL_INTEGER)
    some = np.flatnonzero(size > 0)
    same[some] = column[first[some]]
    differs = np.zeros(len(first), dtype=np.bool_)
    if len(column) and len(some):
        changes = np.concatenate(([0], np.cumsum(column[1:] != column[:-1])))
        differs[some] = changes[first[some] + size[some] - 1] != changes[first[some]]
    return [None if other else value for value, other in zip(same.tolist(), differs.tolist(), strict=True)]


def _repeats(lfn_hash: Ints, first: Ints, size: Ints) -> frozenset[int]:
    """The chunks in which two files have the same name."""
    owner = np.repeat(np.arange(len(first)), size)
    position = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(len(owner))
    return frozenset(np.unique(owner[repeated_names(lfn_hash[position], owner)]).tolist())


def _names(lfn_hash: Ints) -> list[int]:
    """The number of each file's name."""
    numbers: list[int] = np.unique(lfn_hash, return_inverse=True)[1].tolist()
    return numbers


def cycle_work(stored: StoredWork) -> CycleWork:
    """The chunks with everything needed to cut them into jobs.

    Raises:
        WorkCorruptError: the cut of some chunk was not stored, or is damaged.
    """
    try:
        known: _Known = {}
        # chunks that are cut alike share their stored form
        read = {id(cut): _Cut(cut, known) for cut in {id(one): one for one in stored.cuts}.values()}
        return _cycle_work(stored.work, [read[id(cut)] for cut in stored.cuts])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise WorkCorruptError(f"how a stored chunk is cut cannot be read: {error!r}") from error


class _Cut:
    """The parsed cut of a chunk, or of several that are cut alike; columns of files are still in their stored form."""

    def __init__(self, reported: Mapping[str, Any] | None, known: _Known) -> None:
        if reported is None:
            raise ValueError("it was not stored")
        self.settings = _read(SplitSettings, reported["settings"], known)
        self.is_master = [bool(master) for master, _, _ in reported["inputs"]]
        self.sizes = [int(size) for _, size, _ in reported["inputs"]]
        self.uses = [_read(DatasetUse, use, known) for _, _, use in reported["inputs"]]
        self.size = sum(self.sizes)
        if not self.sizes or min(self.sizes) < 0 or self.size > MAX_FILES:
            raise ValueError(f"{self.size} files")
        self.names: list[int] | None = reported["names"]
        self.columns = [reported["files"][name] for name in _COLUMNS]
        self._turns: Mapping[str, list[int]] = reported["held"]
        self._held: dict[str, Bools] = {}

    def held(self, replica: str) -> Bools | None:
        """(F,) the files that a replica has; None for all."""
        turns = self._turns.get(replica)
        if turns is not None and replica not in self._held:
            self._held[replica] = _mask(turns)
        return self._held.get(replica)


_Known = dict[tuple[Any, ...], Any]
"""Settings by their kind and stored form: most chunks of a cycle share theirs."""


def _read(kind: type[SettingsT], reported: Mapping[str, Any], known: _Known) -> SettingsT:
    key = (kind, *reported.items())
    settings: SettingsT | None = known.get(key)
    if settings is None:
        settings = known[key] = kind(**reported)
    return settings


def _files(cuts: Sequence[_Cut]) -> FileTable:
    """The files of all chunks, one chunk after the other."""
    sizes = np.array([cut.size for cut in cuts], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    nothing = np.full(int(sizes.sum()), NULL_INTEGER, dtype=np.int64)
    names = np.arange(len(nothing), dtype=np.int64) - np.repeat(first, sizes)  # no two files of a chunk have the same
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
    """Fill in the values of chunks that have one for each file."""
    for chunk, values in listed.items():
        own, size = np.array(values, dtype=np.int64), int(sizes[chunk])
        if own.shape != (size,):
            raise ValueError(f"a column of {own.shape} for {size} files")
        column[first[chunk] : first[chunk] + size] = own


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
        held.append(cuts[chunk].held(str(replica - first[chunk])))
    return held


def _mask(turns: list[int]) -> Bools:
    """The mask whose runs, the first of them true, end at ``turns``."""
    start, runs = 0, []
    for at, end in enumerate(turns):
        if not start <= end <= MAX_FILES:
            raise ValueError("runs of held files that do not rise")
        runs.append((b"\0" if at % 2 else b"\1") * (end - start))
        start = end
    if not runs:
        raise ValueError("no run of held files")
    return np.frombuffer(b"".join(runs), dtype=np.bool_)
