"""Whole arrays to the server and from it: lists as array texts, integers in PostgreSQL's binary formats."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_CHUNK_ROWS = 65_536
_ARRAY_HEADER_BYTES = 20
_TABLE_HEADER_BYTES = 28
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


def binary_rows(columns: list[NDArray[Any]]) -> bytes:
    """The rows of equally long columns in COPY's binary format, without header and trailer.

    Every value goes as bigint, those of a column of int32 as integer.
    """
    sizes = [4 if column.dtype == np.int32 else 8 for column in columns]
    layout: list[tuple[str, str]] = [("fields", ">i2")]
    for index, size in enumerate(sizes):
        layout += [(f"length_{index}", ">i4"), (f"value_{index}", f">i{size}")]
    rows = np.empty(len(columns[0]), dtype=np.dtype(layout))
    rows["fields"] = len(columns)
    for index, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        rows[f"length_{index}"] = size
        rows[f"value_{index}"] = column
    return rows.tobytes()


def copy_integers(
    connection: psycopg.Connection[Any], table: sql.Composable, columns: Mapping[str, NDArray[Any]]
) -> None:
    """Append rows to ``table``, whose columns named here are bigint; the others get their defaults.

    A column given as an array of int32 is an integer in the table.
    """
    names = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, names)
    values = list(columns.values())
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for start in range(0, len(values[0]), _CHUNK_ROWS):
            copy.write(binary_rows([column[start : start + _CHUNK_ROWS] for column in values]))
        copy.write(_TRAILER)


def integers_of(arrays: Iterable[bytes]) -> NDArray[np.int64]:
    """The elements, one after another, of arrays of bigint (one dimension, no NULL) as ``array_send`` gives each."""
    elements = b"".join([data[_ARRAY_HEADER_BYTES:] for data in arrays])
    return np.frombuffer(elements, _ELEMENT)["value"].astype(np.int64)


def sizes_of(arrays: Iterable[bytes]) -> NDArray[np.int64]:
    """How many elements each of those arrays has."""
    # the header of an empty array is shorter
    return np.array([max(len(data) - _ARRAY_HEADER_BYTES, 0) // _ELEMENT.itemsize for data in arrays], dtype=np.int64)


def tables_of(arrays: Sequence[bytes | None], columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows, one after another, of arrays of bigint in two dimensions, and how many rows each array has.

    Args:
        arrays: (A,) as ``array_send`` gives each, without NULL in it; None: without rows.
        columns: of each row.

    Returns:
        (N, columns) the rows, and (A,) their number.
    """
    bodies = [b"" if data is None else data[_TABLE_HEADER_BYTES:] for data in arrays]
    values = np.frombuffer(b"".join(bodies), _ELEMENT)["value"].astype(np.int64).reshape(-1, columns)
    sizes = np.array([len(body) for body in bodies], dtype=np.int64) // (_ELEMENT.itemsize * columns)
    return values, sizes


ValueT = TypeVar("ValueT", bound=Hashable)


def array_of(values: Iterable[int]) -> str:
    """An array of whole numbers, or of truth values; none of them NULL.

    >>> array_of([1, -2]), array_of([True]), array_of([])
    ('{1,-2}', '{True}', '{}')
    """
    return "{" + ",".join(map(str, values)) + "}"


def array_of_texts(values: Sequence[str]) -> str:
    r"""An array of texts, none of them NULL.

    >>> print(array_of_texts(["mc16", 'a "b"', "c\\d"]))
    {"mc16","a \"b\"","c\\d"}
    """
    if not values:
        return "{}"
    whole = '","'.join(values)
    if "\\" in whole or whole.count('"') > 2 * (len(values) - 1):
        whole = '","'.join([value.replace("\\", "\\\\").replace('"', '\\"') for value in values])
    return '{"' + whole + '"}'


def array_of_nullable(values: Sequence[ValueT | None], written: Callable[[ValueT], str]) -> str:
    """An array of values, None for NULL.

    Args:
        values: each that occurs is written once; values that are equal, such as 0.0 and -0.0, are written alike.
        written: a value as it stands in an array, in quotes where it needs them.

    >>> array_of_nullable([1.5, None, 1.5], repr)
    '{1.5,NULL,1.5}'
    """
    known = {value: "NULL" if value is None else written(value) for value in set(values)}
    return "{" + ",".join([known[value] for value in values]) + "}"
