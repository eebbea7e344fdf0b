"""The columns of a table as JSON, row by row: a value in which all rows agree is written once for all of them.

The result is, to the byte, the JSON of :func:`broker.codec.work_codec.plain_columns` of the rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, repeat
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from broker.domain.arrays import CLASS, AnyArray, taken

Cells = str | list[str]
"""The JSON of the values of a column: one text where all rows have the same, else one for each row."""

# json.dumps would create an encoder for each value
to_json = json.JSONEncoder(separators=(",", ":")).encode
_NULL = "null"
OWNERS_OF_A_BLOCK = 256


class RowOfEach:
    """A table with one row for each owner; each row as a JSON object of columns that hold one value.

    Rows are written for a block of owners at once, so owners are best requested in order.

    Args:
        table: of any kind.
        owners: number of owners.
    """

    def __init__(self, table: Any, owners: int) -> None:
        self._table, self._owners = table, owners
        self._low, self._texts = 0, list[str]()

    def text(self, owner: int) -> str:
        """The row of the owner."""
        if not self._low <= owner < self._low + len(self._texts):
            self._low = owner - owner % OWNERS_OF_A_BLOCK
            high = min(self._low + OWNERS_OF_A_BLOCK, self._owners)
            self._texts = _row_texts(taken(self._table, slice(self._low, high)), high - self._low)
        return self._texts[owner - self._low]


class RowsOfEach:
    """A table whose neighbouring rows belong to an owner; the rows of each as a JSON object of columns.

    Rows are written for a block of owners at once, so owners are best requested in order.

    Args:
        table: of any kind.
        starts: (owners + 1,) the start of the rows of each, and the end of those of the last one.
    """

    def __init__(self, table: Any, starts: list[int]) -> None:
        self._table, self._starts = table, starts
        self._block, self._columns = -1, list[tuple[str, Cells]]()
        self._same: dict[int, list[str | tuple[str, list[str]]]] = {}

    def text(self, owner: int, first: Sequence[int]) -> str:
        """The rows of the owner.

        Args:
            owner: position.
            first: the values of the first column, instead of its own, which say which row owns it.
        """
        block = owner // OWNERS_OF_A_BLOCK
        low = block * OWNERS_OF_A_BLOCK
        if block != self._block:
            high = min(low + OWNERS_OF_A_BLOCK, len(self._starts) - 1)
            table = taken(self._table, slice(self._starts[low], self._starts[high]))
            self._columns = [(f'"{name}":[', cells) for name, cells in column_cells(table)]
            self._block, self._same = block, {}
        start, end = (self._starts[at] - self._starts[low] for at in (owner, owner + 1))
        parts = [_written(self._columns[0][0], list(map(str, first)))]
        for part in self._of_size(end - start):
            parts.append(part if isinstance(part, str) else _written(part[0], part[1][start:end]))
        return "{" + ",".join(parts) + "}"

    def _of_size(self, size: int) -> list[str | tuple[str, list[str]]]:
        """All columns but the first, for ``size`` rows; neighbouring columns with equal rows are one text."""
        if size not in self._same:
            parts: list[str | tuple[str, list[str]]] = []
            for is_one, run in groupby(self._columns[1:], key=lambda column: isinstance(column[1], str)):
                if is_one:
                    parts.append(",".join([_written(begin, [str(cells)] * size) for begin, cells in run]))
                else:
                    parts += [(begin, list(cells)) for begin, cells in run]
            self._same[size] = parts
        return self._same[size]


def _row_texts(table: Any, rows: int) -> list[str]:
    """(rows,) each row of a table as a JSON object of columns that hold one value."""
    parts: list[Cells] = [""]
    separator = "{"
    for name, cells in column_cells(table):
        _append(parts, f'{separator}"{name}":[')
        if isinstance(cells, str):
            _append(parts, cells)
        else:
            parts.append(cells)
        separator = "],"
    _append(parts, "]}")
    columns = (repeat(part, rows) if isinstance(part, str) else part for part in parts)
    return ["".join(row) for row in zip(*columns, strict=False)]


def column_cells(table: Any) -> Iterator[tuple[str, Cells]]:
    """Yield the columns of a table, by name and in their order."""
    for field in dataclasses.fields(table):
        column = getattr(table, field.name)
        yield field.name, _cells_of_objects(column, field.metadata) if column.dtype.kind == "O" else _cells(column)


def _append(parts: list[Cells], text: str) -> None:
    last = parts[-1]
    if isinstance(last, str):
        parts[-1] = last + text
    else:
        parts.append(text)


def _written(begin: str, cells: Sequence[str]) -> str:
    return begin + ",".join(cells) + "]"


def _cells(column: AnyArray) -> Cells:
    """Cells of a column of numbers or flags; -0.0 and 0.0 are two values, since their texts differ."""
    if not len(column):
        return []
    bits = column.view(np.int64) if column.dtype.kind == "f" else column
    if bool((bits == bits[0]).all()):
        return to_json(_plain(column[0].item()))
    values = column.tolist()
    if column.dtype.kind == "f":
        finite = bool(np.isfinite(column).all())
        return list(map(float.__repr__, values)) if finite else [to_json(_plain(value)) for value in values]
    return ["true" if value else "false" for value in values] if column.dtype.kind == "b" else list(map(str, values))


def _cells_of_objects(column: AnyArray, metadata: Mapping[Any, Any]) -> Cells:
    """Cells of a column of texts, or of objects of a class."""
    values = column.tolist()
    if values.count(None) == len(values):
        return _NULL
    if CLASS in metadata:
        return [_NULL if value is None else to_json(value.stored()) for value in values]
    if not all(value is None or type(value) is str for value in values):
        return [to_json(_plain(value)) for value in values]
    written = {value: _NULL if value is None else encode_basestring_ascii(value) for value in set(values)}
    return written[values[0]] if len(written) == 1 else [written[value] for value in values]


def _plain(value: Any) -> Any:
    """The value, None for NaN."""
    return None if isinstance(value, float) and value != value else value
