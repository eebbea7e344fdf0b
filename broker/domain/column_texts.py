"""The columns of a table as JSON, row by row: a value in which all rows agree is written once for all of them.

What comes of it is, to the byte, what :func:`broker.domain.work_codec.plain_columns` of the rows gives as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from broker.domain.arrays import CLASS, AnyArray

Cells = str | list[str]
"""The JSON of the values of a column: one text where all rows have the same, else one for each row."""

# json.dumps would make an encoder for each value
to_json = json.JSONEncoder(separators=(",", ":")).encode
_NULL = "null"


def row_texts(table: Any, rows: int) -> list[str]:
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


class SliceTexts:
    """Neighbouring rows of a table as a JSON object of columns."""

    def __init__(self, table: Any) -> None:
        self._columns = [(f'"{name}":[', cells) for name, cells in column_cells(table)]
        self._same: dict[int, list[str | None]] = {}

    def text(self, start: int, end: int, first: Sequence[int]) -> str:
        """Of the rows from ``start`` to ``end``.

        Args:
            start: of the rows, from the beginning of the table.
            end: of the rows.
            first: what the first column holds instead of its own values.
        """
        size = end - start
        same = self._same.get(size)
        if same is None:
            same = [
                _written(begin, [cells] * size) if isinstance(cells, str) else None for begin, cells in self._columns
            ]
            self._same[size] = same
        parts = [
            _written(begin, cells[start:end]) if text is None else text
            for (begin, cells), text in zip(self._columns, same, strict=True)
        ]
        parts[0] = _written(self._columns[0][0], list(map(str, first)))
        return "{" + ",".join(parts) + "}"


def column_cells(table: Any) -> Iterator[tuple[str, Cells]]:
    """The columns of a table, by name and in their order."""
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
    """Of a column of numbers or flags; -0.0 and 0.0 are two values, as their texts are."""
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
    """Of a column of texts, or of objects of a class."""
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
