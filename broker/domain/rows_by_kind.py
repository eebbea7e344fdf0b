"""Figures of chunks and candidates of which few rows differ: each different row once, and which one each chunk has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Ints


@dataclass(frozen=True)
class RowsByKind:
    """A matrix of T rows, kept as its few different ones.

    Attributes:
        table: (..., K, Q) the rows of each kind, in as many layers as there are figures.
        kind: (T,) the kind of each chunk.

    Three chunks, of which the first and the last are alike:

    >>> import numpy as np
    >>> rows = RowsByKind(np.array([[5, 6], [7, 8]]), np.array([0, 1, 0]))
    >>> rows.every.tolist(), rows.of(np.array([1])).every.tolist(), rows.at(2, np.array([1])).tolist()
    ([[5, 6], [7, 8], [5, 6]], [[7, 8]], [6])
    """

    table: AnyArray
    kind: Ints

    @property
    def every(self) -> AnyArray:
        """(..., T, Q): the row of each chunk."""
        found: AnyArray = self.table[..., self.kind, :]
        return found

    def of(self, rows: slice | AnyArray) -> RowsByKind:
        """Those of some chunks, by their positions."""
        return RowsByKind(self.table, self.kind[rows])

    def of_table(self, table: AnyArray) -> RowsByKind:
        """Something else that is the same for the chunks of a kind."""
        return RowsByKind(table, self.kind)

    def layer(self, at: int) -> RowsByKind:
        """One of several figures."""
        return self.of_table(self.table[at])

    def at(self, row: int, candidates: AnyArray) -> AnyArray:
        """(..., C): the figures of one chunk at some candidates."""
        found: AnyArray = self.table[..., self.kind[row], candidates]
        return found


def rows_of_all(values: AnyArray, count: int) -> RowsByKind:
    """The rows of ``count`` chunks in an array of which nobody knows that any are alike; of length 1: all of them."""
    kind = np.zeros(count, dtype=np.int64) if len(values) == 1 else np.arange(count)
    return RowsByKind(values, kind)
