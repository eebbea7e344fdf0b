"""Transfer of whole arrays to and from the server: lists as array texts, integers in PostgreSQL's binary formats."""

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
    """Encode equally long columns as rows in COPY's binary format, without header and trailer.

    Values are sent as bigint, those of an int32 column as integer.
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
    """Append rows to ``table``; its columns that are not in ``columns`` get their defaults.

    The columns in the table are bigint; one passed as an int32 array is integer.
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
    """The concatenated elements of one-dimensional bigint arrays without NULL, each in ``array_send`` format."""
    elements = b"".join([data[_ARRAY_HEADER_BYTES:] for data in arrays])
    return np.frombuffer(elements, _ELEMENT)["value"].astype(np.int64)


def sizes_of(arrays: Iterable[bytes]) -> NDArray[np.int64]:
    """The number of elements of each array that :func:`integers_of` takes."""
    # the header of an empty array is shorter
    return np.array([max(len(data) - _ARRAY_HEADER_BYTES, 0) // _ELEMENT.itemsize for data in arrays], dtype=np.int64)


def tables_of(arrays: Sequence[bytes | None], columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The concatenated rows of two-dimensional bigint arrays, and the number of rows of each array.

    Args:
        arrays: (A,) arrays without NULL in ``array_send`` format; None for an array without rows.
        columns: number of columns of each row.

    Returns:
        (N, columns) the rows, and (A,) the number of rows of each array.
    """
    bodies = [b"" if data is None else data[_TABLE_HEADER_BYTES:] for data in arrays]
    values = np.frombuffer(b"".join(bodies), _ELEMENT)["value"].astype(np.int64).reshape(-1, columns)
    sizes = np.array([len(body) for body in bodies], dtype=np.int64) // (_ELEMENT.itemsize * columns)
    return values, sizes


ValueT = TypeVar("ValueT", bound=Hashable)


def array_of(values: Iterable[int]) -> str:
    """The array text of integers or booleans, none of them NULL.

    >>> array_of([1, -2]), array_of([True]), array_of([])
    ('{1,-2}', '{True}', '{}')
    """
    return "{" + ",".join(map(str, values)) + "}"


def array_of_texts(values: Sequence[str]) -> str:
    r"""The array text of strings, none of them NULL.

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
    """The array text of values, with NULL for None.

    Args:
        values: each distinct value is formatted once; equal values, such as 0.0 and -0.0, are formatted alike.
        written: formats a value for an array text, quoted where necessary.

    >>> array_of_nullable([1.5, None, 1.5], repr)
    '{1.5,NULL,1.5}'
    """
    known = {value: "NULL" if value is None else written(value) for value in set(values)}
    return "{" + ",".join([known[value] for value in values]) + "}"
