"""Columns: the array types used everywhere, and how tables of columns are reshaped, sliced, grouped and compared.

A *table* is a frozen dataclass whose array fields all have the same length on axis 0. NULL is NaN in a float column,
``None`` in a text column and -1 in an index column.

- :class:`RowsByKind`: a matrix of chunks and candidates that stores each distinct row and column once, with an index.
- :class:`IdentityCache`: values computed from input objects, found by identity: snapshots share the parts that have not
  changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]
Objects = NDArray[np.object_]  # of frozen objects of one class, which the column's metadata names; None for NULL
AnyArray = NDArray[Any]

TableT = TypeVar("TableT")

#: Marks a column that older stored work lacks; its metadata then holds the value of every row.
LATER = "later"
#: Names the class of the objects in a column of objects: it has ``stored()`` and ``of_stored(value)``.
CLASS = "class"


def texts(values: Iterable[str | None]) -> Texts:
    """A 1-D object array of strings, ``None`` for NULL."""
    items = list(values)
    column = np.empty(len(items), dtype=np.object_)
    column[:] = items
    return column


def objects(values: Iterable[Any]) -> Objects:
    """A 1-D array of objects, ``None`` for NULL."""
    items = list(values)
    column = np.empty(len(items), dtype=np.object_)
    for position, value in enumerate(items):
        column[position] = value
    return column


def floats(values: Iterable[float | int | None]) -> Floats:
    """A 1-D float column, NaN for ``None``."""
    return np.array(list(values), dtype=np.float64)


def taken_at(block: AnyArray, row: int, columns: AnyArray) -> AnyArray:
    """(K,) the values at ``columns`` of one row of a block, or of an array that broadcasts to it.

    >>> taken_at(np.array([[1, 2, 3]]), 7, np.array([0, 2])).tolist()
    [1, 3]
    >>> taken_at(np.array([[4], [5]]), 1, np.array([0, 2])).tolist()
    [5, 5]
    """
    if block.ndim < 2:
        block = np.atleast_2d(block)
    values: AnyArray = block[row if block.shape[0] > 1 else 0]
    return values[columns] if values.shape[0] > 1 else np.repeat(values, len(columns))


def either(which: Bools, yes: Bools, no: Bools) -> Bools:
    """``yes`` where ``which`` holds, else ``no``: for masks, several times faster than ``np.where``.

    >>> either(np.array([True, False]), np.array([[True], [False]]), np.array(True)).tolist()
    [[True, True], [False, True]]
    """
    return np.asarray((which & yes) | (~which & no))


class ColumnsAt:
    """Columns of a table of shape (1, Q) at some positions, each taken on first access."""

    def __init__(self, table: Any, at: Ints) -> None:
        self._table, self._at = table, at

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] != 1:
            value = value[:, self._at]
        self.__dict__[name] = value
        return value


def columns_at(table: TableT, at: Ints) -> TableT:
    """The table with only these columns of axis 1; axes of length 1 stay."""
    return cast(TableT, ColumnsAt(table, at))


def reshaped(table: TableT, shape: tuple[int, ...]) -> TableT:
    """Return the table with every 1-D array field reshaped to ``shape``, as views."""
    changes = {
        field.name: value.reshape(shape)
        for field in dataclasses.fields(cast(Any, table))
        if isinstance(value := getattr(table, field.name), np.ndarray) and value.ndim == 1
    }
    return cast(TableT, dataclasses.replace(cast(Any, table), **changes))


def as_column(table: TableT) -> TableT:
    """The table with its columns in shape ``(n, 1)``: tasks against candidates."""
    return reshaped(table, (-1, 1))


def as_row(table: TableT) -> TableT:
    """The table with its columns in shape ``(1, n)``: candidates against tasks."""
    return reshaped(table, (1, -1))


def taken(table: TableT, index: Ints | slice | Sequence[int]) -> TableT:
    """The rows ``index`` of a table of 1-D columns."""
    changes = {
        field.name: value[index]
        for field in dataclasses.fields(cast(Any, table))
        if isinstance(value := getattr(table, field.name), np.ndarray)
    }
    return cast(TableT, dataclasses.replace(cast(Any, table), **changes))


def codes_of(values: Texts, vocabulary: Sequence[str | None]) -> Ints:
    """The position of each text in ``vocabulary``; -1 if it is absent."""
    position = {name: index for index, name in enumerate(vocabulary)}
    codes = [position.get(value, -1) for value in values.ravel().tolist()]
    return np.array(codes, dtype=np.int64).reshape(values.shape)


def distinct(values: Texts) -> tuple[list[Any], Ints]:
    """The distinct texts or objects in order of first appearance, and the position of each value among them (1-D)."""
    return numbered(values.ravel().tolist())


def numbered(values: Iterable[Any]) -> tuple[list[Any], Ints]:
    """The distinct values of any hashable ones, in order of first appearance, and the position of each value.

    >>> known, number = numbered(["b", "a", "b"])
    >>> known, number.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    items = list(values)
    number = dict(zip(dict.fromkeys(items), count(), strict=False))
    return list(number), np.fromiter(map(number.__getitem__, items), dtype=np.int64, count=len(items))


def holds_of(values: Objects, condition: Callable[[Any], bool]) -> Bools:
    """(shape of ``values``): True where a value is not None and the condition holds for it.

    >>> holds_of(texts(["test", None, "managed"]), lambda text: "test" in text).tolist()
    [True, False, False]
    """
    holds = np.asarray(values != np.array(None), dtype=np.bool_)
    flat, present = holds.reshape(-1), np.flatnonzero(holds)
    flat[present] = [condition(one) for one in values.reshape(-1)[present].tolist()]
    return holds


def holds_of_texts(values: Texts, condition: Callable[[str], bool]) -> Bools:
    """Whether a condition holds for each text, evaluated once for each distinct one; False for None.

    >>> holds_of_texts(texts(["test", None, "managed"]), lambda text: "test" in text).tolist()
    [True, False, False]
    """
    known, code = distinct(values)
    holds = np.array([value is not None and condition(value) for value in known], dtype=np.bool_)
    return np.asarray(holds[code].reshape(values.shape))


def frozen(array: AnyArray) -> AnyArray:
    """The array, made read-only: a snapshot never changes under a decision."""
    array.flags.writeable = False
    return array


def any_of(groups: Ints, flags: Bools, size: int) -> Bools:
    """(size,): whether any flag of a group is set.

    >>> any_of(np.array([0, 0, 2]), np.array([False, True, True]), size=4).tolist()
    [True, False, True, False]
    """
    result = np.zeros(size, dtype=np.bool_)
    result[groups[flags]] = True
    return result


T = TypeVar("T")


class IdentityCache(Generic[T]):
    """A cache of the answers for the last few sets of inputs, compared by identity; it affects speed only.

    Args:
        size: how many answers it holds.
    """

    def __init__(self, size: int = 4) -> None:
        self._size = size
        # replaced as a whole, so that threads see either the old or the new tuple
        self._known: tuple[tuple[tuple[object, ...], T], ...] = ()

    def of(self, inputs: tuple[object, ...], make: Callable[[], T]) -> T:
        """The answer for exactly these inputs, which must never change in place; ``make`` computes it."""
        for known, answer in self._known:
            if len(known) == len(inputs) and all(a is b for a, b in zip(known, inputs, strict=True)):
                return answer
        answer = make()
        self._known = (*self._known[1 - self._size :], (inputs, answer)) if self._size > 1 else ((inputs, answer),)
        return answer


@dataclass(frozen=True)
class RowsByKind:
    """A matrix of T rows and Q columns, stored as its few distinct rows and columns.

    Attributes:
        table: (..., K, C) the rows and columns of each kind, with one layer per figure.
        kind: (T,) the kind of each chunk; None if each has a row of its own, in order.
        column: (Q,) the column of each candidate; None if each has one of its own, in order.

    Three chunks, of which the first and the last are equal:

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
        """Whether it covers all pairs of a block of this shape; an axis without differences may have length 1."""
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
        """(..., T, C): the row of each chunk, with the columns as stored."""
        return self.table if self.kind is None else np.take(self.table, self.kind, axis=-2)

    @property
    def by_candidate(self) -> AnyArray:
        """(..., K, Q): the column of each candidate, with the rows as stored."""
        return self.table if self.column is None else np.take(self.table, self.column, axis=-1)

    @property
    def kinds(self) -> Ints:
        """(T,): the table row of each chunk."""
        return np.arange(self.table.shape[-2]) if self.kind is None else self.kind

    def of(self, rows: AnyArray) -> RowsByKind:
        """The rows of some chunks, by position."""
        return RowsByKind(self.table, rows if self.kind is None else self.kind[rows], self.column)

    def of_table(self, table: AnyArray) -> RowsByKind:
        """Another ``table`` with the same kinds of chunks and candidates."""
        return RowsByKind(table, self.kind, self.column)

    def of_chunks(self, table: AnyArray) -> RowsByKind:
        """Another ``table`` (T, C) by chunk, with the same kinds of candidates."""
        return RowsByKind(table, None, self.column)

    def layer(self, at: int) -> RowsByKind:
        """Layer ``at`` of a table with several figures."""
        return self.of_table(self.table[at])

    def at_columns(self, candidates: Ints) -> RowsByKind:
        """The columns of some candidates, by position."""
        column = candidates if self.column is None else self.column.take(candidates)
        return RowsByKind(self.table.take(column, axis=-1), self.kind)

    def at(self, row: int | AnyArray, candidates: AnyArray) -> AnyArray:
        """(..., N): the figures of one chunk at some candidates, or of N chunks, each at its own candidate."""
        kind = row if self.kind is None else self.kind[row]
        figures: AnyArray = self.table[..., kind, candidates if self.column is None else self.column[candidates]]
        return figures

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


#: Most columns with which each row of a mask is compared as one number.
_BITS = 64


@dataclass(frozen=True)
class Kinds:
    """Which of N rows are equal.

    Attributes:
        first: (K,) position of the first row of each kind.
        kind: (N,) the kind of each row.
    """

    first: Ints
    kind: Ints


_kinds = IdentityCache[Kinds](32)


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
    """(T, Q): expand a mask (T, K) to candidates by their kinds (Q,).

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
