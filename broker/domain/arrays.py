"""Columns: the array types used everywhere, and how a table of columns is shaped, cut and compared.

A *table* is a frozen dataclass whose array fields all have the same length on axis 0. NULL is NaN in a float column,
``None`` in a text column and -1 in an index column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]
Objects = NDArray[np.object_]  # of frozen objects of one class, which the column's metadata names; None for NULL
AnyArray = NDArray[Any]

TableT = TypeVar("TableT")

#: Marks a column that stored work may lack, as it came later: its metadata holds the value of every row then.
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
    """(K,) the values at ``columns`` of one row of a block, or of what broadcasts to it.

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
    """The position of each text in ``vocabulary``; -1 where it is not there."""
    position = {name: index for index, name in enumerate(vocabulary)}
    found = [position.get(value, -1) for value in values.ravel().tolist()]
    return np.array(found, dtype=np.int64).reshape(values.shape)


def distinct(values: Texts) -> tuple[list[Any], Ints]:
    """The distinct texts or objects in order of first appearance, and the position of each value among them (1-D)."""
    return numbered(values.ravel().tolist())


def numbered(values: Iterable[Any]) -> tuple[list[Any], Ints]:
    """The distinct ones of any values that have a hash, in order of first appearance, and the position of each.

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
    found = np.asarray(values != np.array(None), dtype=np.bool_)
    flat, there = found.reshape(-1), np.flatnonzero(found)
    flat[there] = [condition(one) for one in values.reshape(-1)[there].tolist()]
    return found


def holds_of_texts(values: Texts, condition: Callable[[str], bool]) -> Bools:
    """Whether a condition holds for each text, evaluated once for each distinct one; False for None.

    >>> holds_of_texts(texts(["test", None, "managed"]), lambda text: "test" in text).tolist()
    [True, False, False]
    """
    known, code = distinct(values)
    found = np.array([one is not None and condition(one) for one in known], dtype=np.bool_)
    return np.asarray(found[code].reshape(values.shape))


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
