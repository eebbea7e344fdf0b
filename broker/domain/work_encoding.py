"""The chunks of a work as bytes, each by itself: what they have in common is worked out for a block of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.arrays import taken
from broker.domain.counted_load import CountedLoad
from broker.domain.work import Work
from broker.domain.work_codec import NO_LOAD, packed_body, plain_columns

_CHUNKS_OF_A_BLOCK = 256


class WorkEncoder:
    """Gives for each chunk of a work the bytes that :func:`broker.domain.work_codec.encode_work` gives for it alone.

    Columns are made plain for a block of chunks at once, so that chunks are best asked for in their order.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        # the inputs of a chunk are neighbours, and so are the replicas of an input
        inputs = np.searchsorted(work.inputs.chunk, np.arange(len(work.chunks) + 1))
        self._inputs: list[int] = inputs.tolist()
        self._replicas: list[int] = np.searchsorted(work.replicas.input, inputs).tolist()
        self._block = -1
        self._columns: dict[str, tuple[int, dict[str, list[Any]]]] = {}

    def encode(self, row: int, load: CountedLoad = NO_LOAD, cut: Mapping[str, Any] | None = None) -> bytes:
        """The chunk at ``row``.

        Args:
            row: position of the chunk.
            load: what the cycle had counted before the chunk.
            cut: how the chunk is cut into jobs, as JSON.
        """
        if row // _CHUNKS_OF_A_BLOCK != self._block:
            self._prepare(row // _CHUNKS_OF_A_BLOCK)
        first = self._inputs[row]
        tables = {
            "c": self._part("c", row, row + 1),
            "i": self._part("i", first, self._inputs[row + 1]),
            "r": self._part("r", self._replicas[row], self._replicas[row + 1]),
        }
        tables["i"]["chunk"] = [0] * len(tables["i"]["chunk"])
        tables["r"]["input"] = [at - first for at in tables["r"]["input"]]
        asked = None if self._work.analysis_request is None else self._part("a", row, row + 1)
        return packed_body(tables, asked, load, cut)

    def _prepare(self, block: int) -> None:
        work = self._work
        low, high = block * _CHUNKS_OF_A_BLOCK, min((block + 1) * _CHUNKS_OF_A_BLOCK, len(work.chunks))
        tables: dict[str, tuple[Any, int, int]] = {
            "c": (work.chunks, low, high),
            "i": (work.inputs, self._inputs[low], self._inputs[high]),
            "r": (work.replicas, self._replicas[low], self._replicas[high]),
        }
        if work.analysis_request is not None:
            tables["a"] = (work.analysis_request, low, high)
        self._columns = {
            name: (start, plain_columns(taken(table, slice(start, end))))
            for name, (table, start, end) in tables.items()
        }
        self._block = block

    def _part(self, table: str, start: int, end: int) -> dict[str, list[Any]]:
        first, columns = self._columns[table]
        start, end = start - first, end - first
        return {name: column[start:end] for name, column in columns.items()}
