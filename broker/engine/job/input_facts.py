"""Facts about the input of a block of chunks, each made when it is read: by unified queue, as replicas are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.facts import Later
from broker.domain.rows_by_kind import RowsByKind
from broker.domain.work import WorkTable
from broker.engine.job.data_facts import DataFacts


@dataclass(frozen=True)
class BlockInput:
    """The input of the chunks ``rows`` at candidates of the unified queues ``unified`` (Q,), of which there are U."""

    work: WorkTable
    rows: slice
    data: DataFacts
    unified: Ints
    count: int

    def facts(self) -> dict[str, Later]:
        """The fields of ``JobFacts`` that follow from it alone."""
        return {
            "available_bytes": partial(self._available, "disk_bytes"),
            "available_files": partial(self._available, "disk_files"),
            "available_tape_bytes": partial(self._available, "any_bytes"),
            "available_tape_files": partial(self._available, "any_files"),
            "all_local": self._all_local,
        }

    def complete(self) -> RowsByKind:
        """Where a complete replica of every dataset is, or nothing can be asked of a location."""
        data, rows = self.data, self.rows
        first, last = np.searchsorted(data.here_chunk, (rows.start, rows.stop))
        found: Bools = np.zeros((rows.stop - rows.start, self.count), dtype=np.bool_)
        found[data.here_chunk[first:last] - rows.start, data.here_unified[first:last]] = True
        found[data.no_locations[rows]] = True
        return RowsByKind(found, column=self.unified)

    @cached_property
    def _cells(self) -> tuple[slice, tuple[Ints, Ints]]:
        """Rows of the availability data, and their positions in a block by unified queue."""
        data, rows = self.data, self.rows
        first, last = np.searchsorted(data.chunk, (rows.start, rows.stop))
        of_block = slice(int(first), int(last))
        return of_block, (data.chunk[of_block] - rows.start, data.unified[of_block])

    def _available(self, column: str) -> RowsByKind:
        of_block, cells = self._cells
        values: Floats = getattr(self.data, column)
        found = np.zeros((self.rows.stop - self.rows.start, self.count))
        found[cells] = values[of_block]
        return RowsByKind(found, column=self.unified)

    def _all_local(self) -> RowsByKind:
        """There is no input, or all of it is on disk at the queue."""
        there = self._available("disk_bytes")
        total = self.work.total_bytes[self.rows, None]
        return there.of_table((total == 0) | (there.table >= total))
