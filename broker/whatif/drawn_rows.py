"""The jobs of each chunk of one side of a comparison, and what decided about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Ints
from broker.whatif.compiled_blocks import BlockRows

NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Drawn:
    """The jobs of a chunk, and all that decided about them beside what both sides have in common.

    Attributes:
        by: the candidates, their weights and their room; equal bytes give equal jobs.
        at: positions of the candidates that got jobs.
        jobs: how many each of these got.
    """

    by: bytes
    at: Ints
    jobs: Ints


class DrawnRows:
    """The jobs of each of so many chunks; of those that the compiled loop placed they are looked up when asked for."""

    def __init__(self, size: int) -> None:
        self._rows: list[Drawn | None] = [Drawn(b"", NOBODY, NOBODY)] * size
        self._blocks: dict[int, tuple[BlockRows, int]] = {}

    def __getitem__(self, row: int) -> Drawn:
        found = self._rows[row]
        if found is None:
            block, first = self._blocks[row]
            found = self._rows[row] = Drawn(b"", *block.given(row - first))
        return found

    def __setitem__(self, row: int, drawn: Drawn) -> None:
        self._rows[row] = drawn

    def put_block(self, rows: slice, found: BlockRows) -> None:
        """The chunks of a block that the compiled loop placed; it is not kept what decided about their jobs."""
        for at in found.by_loop.tolist():
            self._rows[rows.start + at], self._blocks[rows.start + at] = None, (found, rows.start)
