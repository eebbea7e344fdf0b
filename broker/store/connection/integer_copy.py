"""Whole arrays of integers to the server and from it, in PostgreSQL's binary formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_CHUNK_ROWS = 65_536
_ARRAY_HEADER_BYTES = 20


def binary_rows(columns: list[NDArray[Any]]) -> bytes:
    """The rows of equally long columns in COPY's binary format, without header and trailer; every value as bigint."""
    layout: list[tuple[str, str]] = [("fields", ">i2")]
    for index in range(len(columns)):
        layout += [(f"length_{index}", ">i4"), (f"value_{index}", ">i8")]
    rows = np.empty(len(columns[0]), dtype=np.dtype(layout))
    rows["fields"] = len(columns)
    for index, column in enumerate(columns):
        rows[f"length_{index}"] = 8
        rows[f"value_{index}"] = column
    return rows.tobytes()


def copy_integers(
    connection: psycopg.Connection[Any], table: sql.Composable, columns: Mapping[str, NDArray[Any]]
) -> None:
    """Append rows to ``table``, whose columns named here are all bigint; the others get their defaults."""
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
    element = np.dtype([("length", ">i4"), ("value", ">i8")])
    parts = [np.frombuffer(data, element, offset=_ARRAY_HEADER_BYTES)["value"] for data in arrays]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
