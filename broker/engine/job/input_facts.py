"""Facts about the input of a block of chunks at all candidates, each made when it is read.

What is known of replicas is sparse, by unified queue; nearly all pairs have nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.facts import Later
from broker.domain.work import WorkTable
from broker.engine.job.data_facts import DataFacts


@dataclass(frozen=True)
class CandidatesOf:
    """The candidates of each unified queue: those of ``u`` are ``candidate[start[u]:start[u + 1]]``."""

    start: Ints  # (U + 1,)
    candidate: Ints  # (Q,)

    @classmethod
    def unified(cls, unified: Ints, count: int) -> CandidatesOf:
        """By the unified queue (Q,) of each candidate; there are ``count`` of them."""
        candidate = np.argsort(unified, kind="stable")
        start = np.searchsorted(unified[candidate], np.arange(count + 1))
        return cls(start.astype(np.int64), candidate.astype(np.int64))

    def spread(self, unified: Ints) -> tuple[Ints, Ints]:
        """The candidates of each of some unified queues, and for each the position in the list that it comes from.

        Unified queue 0 has the candidates 0 and 1, queue 1 has candidate 2:

        >>> of = CandidatesOf.unified(np.array([0, 0, 1]), count=2)
        >>> [part.tolist() for part in of.spread(np.array([1, 0]))]
        [[2, 0, 1], [0, 1, 1]]
        """
        first = self.start[unified]
        size = self.start[unified + 1] - first
        entry = np.repeat(np.arange(len(unified)), size)
        inside = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
        return self.candidate[first[entry] + inside], entry


@dataclass(frozen=True)
class BlockInput:
    """The input of the chunks ``rows`` at all candidates, (T, Q)."""

    work: WorkTable
    rows: slice
    data: DataFacts
    candidates: CandidatesOf

    def facts(self) -> dict[str, Later]:
        """The fields of ``JobFacts`` that follow from it alone."""
        data = self.data
        return {
            "available_bytes": partial(self._available, data.disk_bytes),
            "available_files": partial(self._available, data.disk_files),
            "available_tape_bytes": partial(self._available, data.any_bytes),
            "available_tape_files": partial(self._available, data.any_files),
            "all_local": self._all_local,
        }

    def complete(self) -> Bools:
        """Where a complete replica of every dataset is, or nothing can be asked of a location."""
        data, rows = self.data, self.rows
        first, last = np.searchsorted(data.here_chunk, (rows.start, rows.stop))
        found = np.zeros(self._shape, dtype=np.bool_)
        cells, _ = self._cells(data.here_chunk[first:last], data.here_unified[first:last])
        found.ravel()[cells] = True
        found[data.no_locations[rows]] = True
        return found

    @property
    def _shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, len(self.candidates.candidate)

    def _cells(self, chunk: Ints, unified: Ints) -> tuple[Ints, Ints]:
        """Positions in the flattened block, and for each the entry that it comes from."""
        candidate, entry = self.candidates.spread(unified)
        return (chunk[entry] - self.rows.start) * self._shape[1] + candidate, entry

    @cached_property
    def _entries(self) -> tuple[Ints, Ints]:
        """Of what is available: positions in the flattened block, and the rows of the data for them."""
        first, last = np.searchsorted(self.data.chunk, (self.rows.start, self.rows.stop))
        cells, entry = self._cells(self.data.chunk[first:last], self.data.unified[first:last])
        return cells, first + entry

    def _available(self, values: Floats) -> Floats:
        cells, row = self._entries
        found = np.zeros(self._shape)
        found.ravel()[cells] = values[row]
        return found

    def _all_local(self) -> AnyArray:
        """There is no input, or all of it is on disk at the queue."""
        total = self.work.total_bytes
        cells, row = self._entries
        found = np.zeros(self._shape, dtype=np.bool_)
        found[total[self.rows] <= 0] = True
        found.ravel()[cells] |= self.data.disk_bytes[row] >= total[self.data.chunk[row]]
        return found
