"""Figures of chunks and candidates of which few rows or columns differ: each different one once, and where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints, distinct
from broker.domain.identity_cache import Kept


@dataclass(frozen=True)
class RowsByKind:
    """A matrix of T rows and Q columns, kept as its few different ones.

    Attributes:
        table: (..., K, C) the rows and columns of each kind, in as many layers as there are figures.
        kind: (T,) the kind of each chunk; None where each has a row of its own, in order.
        column: (Q,) the column of each candidate; None where each has one of its own, in order.

    Three chunks, of which the first and the last are alike:

    >>> rows = RowsByKind(np.array([[5, 6], [7, 8]]), np.array([0, 1, 0]))
    >>> rows.every.tolist(), rows.of(np.array([1])).every.tolist(), rows.at(2, np.array([1])).tolist()
    ([[5, 6], [7, 8], [5, 6]], [[7, 8]], [6])

    Two candidates of one unified queue:

    >>> RowsByKind(np.array([[5, 6], [7, 8]]), column=np.array([0, 0, 1])).every.tolist()
    [[5, 5, 6], [7, 7, 8]]
    """

    table: AnyArray
    kind: Ints | None = None
    column: Ints | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (T, Q) of the matrix."""
        rows, columns = self.table.shape[-2:]
        return rows if self.kind is None else len(self.kind), columns if self.column is None else len(self.column)

    def broadcasts_to(self, shape: tuple[int, ...]) -> bool:
        """Whether it stands for all pairs of a block of this shape; an axis along which nothing differs may be 1."""
        return self.table.ndim == 2 and all(own in (1, other) for own, other in zip(self.shape, shape, strict=True))

    @property
    def every(self) -> AnyArray:
        """(..., T, Q): the row of each chunk."""
        if self.column is None:
            return self.by_chunk
        if self.kind is None or self.table.shape[-2] > len(self.kind):
            return np.take(self.by_chunk, self.column, axis=-1)
        # rows are copied many times faster than cells
        return np.take(self.by_candidate, self.kind, axis=-2)

    @property
    def by_chunk(self) -> AnyArray:
        """(..., T, C): the row of each chunk, with the columns as they are kept."""
        return self.table if self.kind is None else np.take(self.table, self.kind, axis=-2)

    @property
    def by_candidate(self) -> AnyArray:
        """(..., K, Q): the column of each candidate, with the rows as they are kept."""
        return self.table if self.column is None else np.take(self.table, self.column, axis=-1)

    @property
    def kinds(self) -> Ints:
        """(T,): the row of the table that each chunk has."""
        return np.arange(self.table.shape[-2]) if self.kind is None else self.kind

    def of(self, rows: AnyArray) -> RowsByKind:
        """The rows of some chunks, by position."""
        return RowsByKind(self.table, rows if self.kind is None else self.kind[rows], self.column)

    def of_table(self, table: AnyArray) -> RowsByKind:
        """Something else that is the same for chunks and candidates of a kind."""
        return RowsByKind(table, self.kind, self.column)

    def of_chunks(self, table: AnyArray) -> RowsByKind:
        """Something else that is the same for candidates of a kind; ``table`` (T, C) by chunk."""
        return RowsByKind(table, None, self.column)

    def layer(self, at: int) -> RowsByKind:
        """Layer ``at`` of a table with several figures."""
        return self.of_table(self.table[at])

    def at_columns(self, candidates: Ints) -> RowsByKind:
        """The columns of some candidates, by position."""
        column = candidates if self.column is None else self.column.take(candidates)
        return RowsByKind(self.table.take(column, axis=-1), self.kind)

    def at(self, row: int | AnyArray, candidates: AnyArray) -> AnyArray:
        """(..., N): the figures of one chunk at some candidates, or of as many chunks, each at its own."""
        kind = row if self.kind is None else self.kind[row]
        found: AnyArray = self.table[..., kind, candidates if self.column is None else self.column[candidates]]
        return found

    def at_pairs(self, chunk: Ints, candidate: Ints) -> AnyArray:
        """(..., N): the figures of N chunks, each at a candidate of its own.

        >>> rows = RowsByKind(np.array([[5, 6], [7, 8]]), np.array([0, 1, 0]))
        >>> rows.at_pairs(np.array([0, 1]), np.array([1, 0])).tolist()
        [6, 7]
        """
        kinds, width = self.table.shape[-2:]
        flat = self.table.reshape(*self.table.shape[:-2], kinds * width)
        column = candidate if self.column is None else self.column.take(candidate)
        if kinds == 1:
            return flat.take(np.zeros_like(chunk) if width == 1 else column, axis=-1)
        row = chunk if self.kind is None else self.kind.take(chunk)
        return flat.take(row if width == 1 else row * width + column, axis=-1)


def rows_of_all(values: AnyArray, count: int) -> RowsByKind:
    """Wrap an array of ``count`` rows without known duplicates; an array of length 1 stands for all rows."""
    return RowsByKind(values, np.zeros(count, dtype=np.int64) if len(values) == 1 else None)


#: Up to so many columns the rows of a mask are compared as one number each.
_BITS = 64


@dataclass(frozen=True)
class Kinds:
    """Which of N rows are alike.

    Attributes:
        first: (K,) position of the first row of each kind.
        kind: (N,) the kind of each row.
    """

    first: Ints
    kind: Ints


_kinds = Kept[Kinds](32)


def kinds_of(columns: Sequence[AnyArray]) -> Kinds:
    """The kinds of rows by columns of numbers, flags, texts or objects, each with N elements that never change.

    >>> kinds = kinds_of([np.array([1.0, 2.0, 1.0, np.nan, np.nan]), np.array([True, True, True, True, True])])
    >>> kinds.first.tolist(), kinds.kind.tolist()
    ([0, 1, 3], [0, 1, 0, 2, 2])
    """
    return _kinds.of(tuple(columns), lambda: _kinds_of(columns))


def _kinds_of(columns: Sequence[AnyArray]) -> Kinds:
    figures = [distinct(column)[1] if column.dtype == np.object_ else column.ravel() for column in columns]
    rows = np.stack([figure.astype(np.float64) for figure in figures], axis=1)
    number: dict[bytes, int] = {}
    kind = [
        number.setdefault(row, len(number)) for row in rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel().tolist()
    ]
    _, first = np.unique(kind, return_index=True)
    return Kinds(first, np.array(kind, dtype=np.int64))


def spread(mask: Bools, kind: Ints) -> Bools:
    """(T, Q): the column of each candidate, of a mask (T, K) by the kinds (Q,) of candidates.

    Few rows of a mask differ, and rows are copied many times faster than cells.

    >>> spread(np.array([[True, False], [False, False]]), np.array([1, 0, 0])).tolist()
    [[False, True, True], [False, False, False]]
    """
    if not 0 < mask.shape[1] <= _BITS:
        return np.asarray(mask[:, kind])
    bits = np.zeros((len(mask), 8), dtype=np.uint8)
    packed = np.packbits(mask, axis=1)
    bits[:, : packed.shape[1]] = packed
    _, first, row = np.unique(bits.view(np.uint64).ravel(), return_index=True, return_inverse=True)
    if len(first) == 1:
        return np.broadcast_to(mask[:1].take(kind, axis=1), (len(mask), len(kind)))
    return mask.take(first, axis=0).take(kind, axis=1).take(row, axis=0)
