"""Sums over the files of a cycle that cutting reads, computed for all its datasets at once.

A chunk then takes its part of these columns: with thousands of chunks of a few files each, that is much less work than
iterating over the files of each chunk.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.work.input_files import (
    FileTable,
    effective_bytes,
    effective_events,
    repeated_names,
    stored_bytes,
    unique_totals,
)


class RunLists(NamedTuple):
    """Lists over F files: the sums before each file and at the end (F + 1), and starts inside a name (F)."""

    events: list[int]
    size: list[int]
    bytes: list[int]
    first_bytes: list[int]


class FileRuns:
    """Prefix sums over the master files of a chunk: the content of any run of files in constant time.

    Attributes:
        file_events: (F,) events that each file stands for.
        file_size: (F,) bytes that each stands for.
        events: (F + 1,) sums of events before each file and after the last.
        size: (F + 1,) the same sums of bytes.
    """

    def __init__(
        self, table: FileTable, part: slice, file_events: Ints, file_size: Ints, sums: Ints, inside: Ints
    ) -> None:
        """``sums`` (4, F + 1): events, bytes stood for, bytes and number of distinct files; ``inside`` (2, F)."""
        self._table, self._part = table, part
        self.file_events, self.file_size = file_events, file_size
        self.events, self.size, self._bytes, self._names = sums
        self._first_bytes, self._first_names = inside

    def __len__(self) -> int:
        return len(self.file_events)

    def input_bytes(self, first: Ints, stop: Ints) -> Ints:
        """Bytes of the distinct files of runs."""
        held: Ints = self._bytes[stop] - self._bytes[first] + self._first_bytes[first]
        return held

    def input_files(self, first: Ints, stop: Ints) -> Ints:
        """Number of the distinct files of runs."""
        names: Ints = self._names[stop] - self._names[first] + self._first_names[first]
        return names

    @cached_property
    def files(self) -> FileTable:
        """The files behind the sums, in their order."""
        return self._table.rows(self._part)

    @cached_property
    def lists(self) -> RunLists:
        """The sums as lists, for callers that walk one run after another."""
        return RunLists(self.events.tolist(), self.size.tolist(), self._bytes.tolist(), self._first_bytes.tolist())


class FileSums:
    """Sums over the files of all inputs of a cycle.

    Args:
        files: (F,) of all inputs, one after the other.
        offsets: (I + 1,) input ``i`` has the files ``offsets[i]:offsets[i + 1]``.
    """

    def __init__(self, files: FileTable, offsets: Ints) -> None:
        self._files = files
        self._offsets: list[int] = offsets.tolist()
        size, new_name = stored_bytes(files), _new_names(files.lfn_hash, offsets)
        self._events, self._size = effective_events(files), effective_bytes(files)
        self._sums = np.zeros((4, len(files) + 1), dtype=np.int64)
        for row, column in enumerate((self._events, self._size, np.where(new_name, size, 0), new_name)):
            np.cumsum(column, out=self._sums[row, 1:], dtype=np.int64)
        # a run that begins inside a name has its bytes in addition to the sums over new names
        self._inside = np.array([np.where(new_name, 0, size), ~new_name], dtype=np.int64)
        self._in_one_run: list[bool] = _names_in_one_run(files.lfn_hash, offsets, new_name).tolist()

    def names_in_one_run(self, position: int) -> bool:
        """Whether the rows of each file name of the input at ``position`` are neighbours."""
        return self._in_one_run[position]

    @property
    def in_one_run(self) -> Bools:
        """(I,) :meth:`names_in_one_run` of every input."""
        return np.array(self._in_one_run, dtype=np.bool_)

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """(F,) each: events and bytes that a file stands for; bytes and names that a run beginning inside adds."""
        return self._events, self._size, self._inside[0], self._inside[1]

    @property
    def sums(self) -> Ints:
        """(4, F + 1) sums before each file and at the end: events, bytes stood for, bytes and distinct files.

        A sum over all files may wrap around; the difference of two sums of one input is exact nevertheless.
        """
        return self._sums

    @cached_property
    def distinct_totals(self) -> list[tuple[int, int]]:
        """(I,) the number of distinct files of each input, and the sum of their sizes in bytes."""
        offsets = np.array(self._offsets, dtype=np.int64)
        size, names = self._sums[2:, offsets[1:]] - self._sums[2:, offsets[:-1]]
        totals = list(zip(names.tolist(), size.tolist(), strict=True))
        for position, alike in enumerate(self._in_one_run):
            if not alike:
                part = slice(self._offsets[position], self._offsets[position + 1])
                totals[position] = unique_totals(self._files.rows(part))
        return totals

    def runs(self, position: int) -> FileRuns:
        """The files of the input at ``position``."""
        first, stop = self._offsets[position], self._offsets[position + 1]
        sums = self._sums[:, first : stop + 1] - self._sums[:, first : first + 1]
        part = slice(first, stop)
        return FileRuns(self._files, part, self._events[part], self._size[part], sums, self._inside[:, part])


def runs_of(files: FileTable) -> FileRuns:
    """The runs of the files of one dataset."""
    return FileSums(files, np.array([0, len(files)], dtype=np.int64)).runs(0)


def _new_names(lfn_hash: Ints, offsets: Ints) -> Bools:
    """(F,) files whose name differs from that of the previous file of their input."""
    new_name = np.ones(len(lfn_hash), dtype=np.bool_)
    new_name[1:] = lfn_hash[1:] != lfn_hash[:-1]
    starts = offsets[:-1]
    new_name[starts[starts < len(lfn_hash)]] = True
    return new_name


def _names_in_one_run(lfn_hash: Ints, offsets: Ints, new_name: Bools) -> Bools:
    """(I,) inputs in which no name has two runs."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[new_name]
    in_one_run = np.ones(len(offsets) - 1, dtype=np.bool_)
    in_one_run[owner[repeated_names(lfn_hash[new_name], owner)]] = False
    return in_one_run
