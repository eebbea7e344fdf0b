"""Rows of a table that are alike in some of its columns: what is worked out of these columns is worked out once a kind.

A grid of hundreds of queues has few kinds of memory or scratch disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints, distinct
from broker.domain.kept import Kept

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
