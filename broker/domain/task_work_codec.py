"""One task's work as bytes, kept with its decision, so that the decision can be asked again."""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, Texts, taken
from broker.domain.task_work import (
    AssigningTable,
    OutputTable,
    PartReplicaTable,
    PartTable,
    RemainingTable,
    TaskWork,
)
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable
from broker.domain.work_codec import MAX_WORK_BYTES, WorkCorruptError, plain_columns, table_of

_TABLES: tuple[tuple[str, type[Any]], ...] = (
    ("tasks", AssigningTable),
    ("outputs", OutputTable),
    ("parts", PartTable),
    ("replicas", PartReplicaTable),
    ("remaining", RemainingTable),
)
_HINT_TABLES: tuple[tuple[str, type[Any]], ...] = (
    ("chunks", WorkTable),
    ("inputs", InputTable),
    ("replicas", ReplicaTable),
)


def task_of(work: TaskWork, row: int) -> TaskWork:
    """The work of the task at ``row`` alone; what nuclei have to do stays as it is."""
    outputs, parts = np.flatnonzero(work.outputs.task == row), np.flatnonzero(work.parts.task == row)
    # the parts of a task are neighbours, so their replicas are found by position
    first = int(parts[0]) if len(parts) else 0
    replicas = _within(work.replicas.part, first, len(parts))
    own_outputs, own_parts = taken(work.outputs, outputs), taken(work.parts, parts)
    own_replicas = taken(work.replicas, replicas)
    return TaskWork(
        taken(work.tasks, slice(row, row + 1)),
        dataclasses.replace(own_outputs, task=np.zeros(len(outputs), dtype=np.int64)),
        dataclasses.replace(own_parts, task=np.zeros(len(parts), dtype=np.int64)),
        dataclasses.replace(own_replicas, part=own_replicas.part - first),
        work.remaining,
        _hint_of(work.hint, int(work.tasks.jeditaskid[row])),
    )


def _within(values: Ints, first: int, count: int) -> Ints:
    return np.flatnonzero((values >= first) & (values < first + count))


def _hint_of(hint: Work, jeditaskid: int) -> Work:
    chunks = np.flatnonzero(hint.chunks.jeditaskid == jeditaskid)
    first = int(chunks[0]) if len(chunks) else 0
    inputs = _within(hint.inputs.chunk, first, len(chunks))
    first_input = int(inputs[0]) if len(inputs) else 0
    replicas = _within(hint.replicas.input, first_input, len(inputs))
    own_inputs, own_replicas = taken(hint.inputs, inputs), taken(hint.replicas, replicas)
    return Work(
        taken(hint.chunks, chunks),
        dataclasses.replace(own_inputs, chunk=own_inputs.chunk - first),
        dataclasses.replace(own_replicas, input=own_replicas.input - first_input),
    )


def encode_task_work(work: TaskWork, nuclei: Texts, all_work: Floats, share_work: Floats) -> bytes:
    """The work of one task as compressed JSON; NaN is null.

    What nuclei have to do is kept as two figures for each: all of it, and what counts in the weight of this task.

    Args:
        work: of one task.
        nuclei: (N,) their names.
        all_work: (N,) HS06 s.
        share_work: (N,) HS06 s of the task's share at its priority and above, with what the cycle had placed before.
    """
    body: dict[str, Any] = {name: plain_columns(getattr(work, name)) for name, _ in _TABLES if name != "remaining"}
    body["hint"] = {name: plain_columns(getattr(work.hint, name)) for name, _ in _HINT_TABLES}
    body["remaining"] = plain_columns(_remaining(work.tasks, nuclei, all_work, share_work))
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def _remaining(tasks: AssigningTable, nuclei: Texts, all_work: Floats, share_work: Floats) -> RemainingTable:
    """Work that gives the same two figures: of the task's own share and priority, and of no share for the rest."""
    count = len(nuclei)
    own = np.repeat(np.arange(2) == 0, count)
    nobody = np.full(2 * count, None, dtype=np.object_)

    def own_column(values: Texts) -> Texts:
        column = nobody.copy()
        column[:count] = values[0]
        return column

    return RemainingTable(
        nucleus=np.concatenate([nuclei, nuclei]),
        vo=own_column(tasks.vo),
        gshare=own_column(tasks.gshare),
        workqueue_id=np.where(own, tasks.workqueue_id[0], np.nan),
        currentpriority=np.where(own, tasks.currentpriority[0], np.nan),
        hs06s=np.concatenate([share_work, all_work - share_work]),
    )


def decode_task_work(data: bytes) -> TaskWork:
    """The work that :func:`encode_task_work` gave.

    Raises:
        WorkCorruptError: it is damaged, too large, or of an engine with other columns; the message names the column.
    """
    try:
        body = json.loads(zlib.decompressobj().decompress(data, MAX_WORK_BYTES))
        tables = {name: table_of(kind, body[name]) for name, kind in _TABLES}
        hint = Work(*(table_of(kind, body["hint"][name]) for name, kind in _HINT_TABLES))
        return TaskWork(**tables, hint=hint)
    except (zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error
