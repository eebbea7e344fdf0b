"""One chunk's work as bytes, kept with its decision, so that the decision can be asked again."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Ints, taken
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable

#: Bytes that the work of one chunk may unpack to.
MAX_WORK_BYTES = 64 * 1024 * 1024

TableT = TypeVar("TableT")


class WorkCorruptError(Exception):
    """Stored work that cannot be read back."""


def chunk_of(work: Work, row: int) -> Work:
    """The work of the chunk at ``row`` alone."""
    inputs = np.flatnonzero(work.inputs.chunk == row)
    first = int(inputs[0]) if len(inputs) else 0
    # the inputs of a chunk are neighbours, so their replicas are found by position
    replicas = np.flatnonzero((work.replicas.input >= first) & (work.replicas.input < first + len(inputs)))
    own_inputs = taken(work.inputs, inputs)
    own_replicas = taken(work.replicas, replicas)
    return Work(
        taken(work.chunks, slice(row, row + 1)),
        dataclasses.replace(own_inputs, chunk=np.zeros(len(inputs), dtype=np.int64)),
        dataclasses.replace(own_replicas, input=own_replicas.input - first),
        wishes=None if work.wishes is None else taken(work.wishes, slice(row, row + 1)),
    )


def encode_work(work: Work, placed: Mapping[str, int] | None = None) -> bytes:
    """The work as compressed JSON; NaN is null.

    Args:
        work: of one chunk.
        placed: jobs that the cycle had placed for the chunk's share before it, by unified queue.
    """
    tables = (("c", work.chunks), ("i", work.inputs), ("r", work.replicas))
    body: dict[str, Any] = {name: plain_columns(table) for name, table in tables}
    body["placed"] = dict(placed or {})
    if work.wishes is not None:
        body["a"] = plain_columns(work.wishes)
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def plain_columns(table: Any) -> dict[str, list[Any]]:
    """The columns of a table as JSON has them: NaN is null."""
    columns: dict[str, list[Any]] = {}
    for field in dataclasses.fields(table):
        values: list[Any] = getattr(table, field.name).tolist()
        columns[field.name] = [None if isinstance(value, float) and value != value else value for value in values]
    return columns


def decode_work(data: bytes) -> Work:
    """The work that :func:`encode_work` gave.

    Raises:
        WorkCorruptError: it is damaged, too large, or of an engine with other columns; the message names the column.
    """
    try:
        body = _body(data)
        tables = body["c"], body["i"], body["r"]
        wishes = table_of(AnalysisWork, body["a"]) if "a" in body else None
        chunks, inputs = table_of(WorkTable, tables[0]), table_of(InputTable, tables[1])
        return Work(chunks, inputs, table_of(ReplicaTable, tables[2]), wishes=wishes)
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def decode_placed(data: bytes) -> dict[str, int]:
    """The jobs that were given to :func:`encode_work`, by unified queue.

    Raises:
        WorkCorruptError: it is damaged or too large.
    """
    try:
        return {str(queue): int(jobs) for queue, jobs in _body(data).get("placed", {}).items()}
    except (zlib.error, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def _body(data: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(zlib.decompressobj().decompress(data, MAX_WORK_BYTES))
    return body


def table_of(kind: type[TableT], columns: dict[str, list[Any]]) -> TableT:
    """The table of columns that :func:`plain_columns` gave.

    Raises:
        WorkCorruptError: a column is missing, or not as long as the others.
    """
    arrays = {}
    for field in dataclasses.fields(cast(Any, kind)):
        if field.name not in columns:
            raise WorkCorruptError(f"the stored work has no column {field.name}: it is of another engine version")
        arrays[field.name] = _column(str(field.type), columns[field.name])
    if len({len(column) for column in arrays.values()}) > 1:
        raise WorkCorruptError("the stored work of a decision has columns of different lengths")
    return kind(**arrays)


def _column(type_name: str, values: list[Any]) -> Any:
    if type_name == "Floats":
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if type_name == "Texts":
        column = np.empty(len(values), dtype=np.object_)
        column[:] = values
        return column
    dtype: type[np.bool_] | type[np.int64] = np.bool_ if type_name == "Bools" else np.int64
    return cast(Ints, np.array(values, dtype=dtype))
