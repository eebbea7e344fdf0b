"""Codec for one task's work: bytes that are stored with its decision, so that it can be decided again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from broker.domain.work_bytes import pack_work
from broker.domain.work_codec import (
    Body,
    WorkCorruptError,
    joined_columns,
    plain_columns,
    shifted,
    table_of,
    unpacked,
)

#: The share of work that counts for no task in particular; the name of no share has such a character.
_NO_SHARE = "\1"
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
    """The work of the task at ``row`` alone; the remaining work of nuclei is unchanged."""
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


@dataclass(frozen=True)
class StoredTasks:
    """The work of several tasks, one after the other, with what was stored beside it.

    Attributes:
        work: of the tasks; what nuclei have to do is not in it, as each task has its own figures.
        share_work: for each task what remained of its share at its priority and above when the cycle began, HS06 s by
            nucleus.
        placed: for each task what the cycle had placed for its share before it, HS06 s by nucleus.
    """

    work: TaskWork
    share_work: tuple[Mapping[str, float], ...]
    placed: tuple[Mapping[str, float], ...]


def encode_task_work(
    work: TaskWork, nuclei: Texts, all_work: Floats, share_work: Floats, placed: Floats | None = None
) -> bytes:
    """The work of one task as compressed JSON; NaN is null.

    What nuclei have to do is kept as two figures for each: all of it, and what counts in the weight of this task.

    Args:
        work: of one task.
        nuclei: (N,) their names.
        all_work: (N,) HS06 s.
        share_work: (N,) HS06 s of the task's share at its priority and above, when the cycle began.
        placed: (N,) HS06 s that the cycle had placed for the task's share before it; None for nothing.
    """
    body: dict[str, Any] = {name: plain_columns(getattr(work, name)) for name, _ in _TABLES if name != "remaining"}
    body["hint"] = {name: plain_columns(getattr(work.hint, name)) for name, _ in _HINT_TABLES}
    body["remaining"] = {"nucleus": nuclei.tolist(), "share": share_work.tolist(), "all": all_work.tolist()}
    counted = np.zeros(len(nuclei)) if placed is None else placed
    body["placed"] = {str(nuclei[at]): float(counted[at]) for at in np.flatnonzero(counted)}
    return pack_work(json.dumps(body, separators=(",", ":")).encode())


def decode_task_work(data: bytes) -> TaskWork:
    """The work of one task as its turn in the cycle found it: with what had been placed before.

    Raises:
        WorkCorruptError: it is damaged, too large, or of an engine with other columns; the message names the column.
    """
    body = unpacked(data)
    stored = joined_tasks([body])
    try:
        reported = body["remaining"]
        share, placed = stored.share_work[0], stored.placed[0]
        counted = np.array([share[name] + placed.get(name, 0.0) for name in reported["nucleus"]], dtype=np.float64)
        nuclei = np.array(reported["nucleus"], dtype=np.object_)
        remaining = _remaining(stored.work.tasks, nuclei, np.array(reported["all"], dtype=np.float64), counted)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error
    return dataclasses.replace(stored.work, remaining=remaining)


def _remaining(tasks: AssigningTable, nuclei: Texts, all_work: Floats, share_work: Floats) -> RemainingTable:
    """Work that gives the same two figures: of the task's own share and priority, and of no share for the rest."""
    count = len(nuclei)
    own = np.repeat(np.arange(2) == 0, count)

    def column(value: str | None) -> Texts:
        return np.full(2 * count, value, dtype=np.object_)

    return RemainingTable(
        nucleus=np.concatenate([nuclei, nuclei]),
        vo=column(tasks.vo[0]),
        gshare=np.where(own, column(tasks.gshare[0]), column(_NO_SHARE)),
        workqueue_id=np.where(own, tasks.workqueue_id[0], np.nan),
        currentpriority=np.where(own, tasks.currentpriority[0], np.nan),
        hs06s=np.concatenate([share_work, all_work - share_work]),
        prodsourcelabel=column(tasks.prodsourcelabel[0]),
    )


def joined_tasks(bodies: Sequence[Body], *, fill: bool = False) -> StoredTasks:
    """The tasks of several bodies, in this order, as one work; with ``fill`` columns that are missing hold NULL.

    Raises:
        WorkCorruptError: a body is damaged, or of an engine with other columns; the message names the column.
    """
    try:
        tables = {name: joined_columns(bodies, name) for name, _ in _TABLES if name != "remaining"}
        tables["outputs"]["task"] = shifted(bodies, ("outputs", "task"), ("tasks", "jeditaskid"))
        tables["parts"]["task"] = shifted(bodies, ("parts", "task"), ("tasks", "jeditaskid"))
        tables["replicas"]["part"] = shifted(bodies, ("replicas", "part"), ("parts", "task"))
        hints = [body["hint"] for body in bodies]
        hint = {name: joined_columns(hints, name) for name, _ in _HINT_TABLES}
        hint["inputs"]["chunk"] = shifted(hints, ("inputs", "chunk"), ("chunks", "jeditaskid"))
        hint["replicas"]["input"] = shifted(hints, ("replicas", "input"), ("inputs", "chunk"))
        read = {name: table_of(kind, tables[name], fill=fill) for name, kind in _TABLES if name != "remaining"}
        work = TaskWork(
            **read,
            remaining=_nothing_remains(),
            hint=Work(*(table_of(kind, hint[name], fill=fill) for name, kind in _HINT_TABLES)),
        )
        return StoredTasks(work, tuple(map(_share_work, bodies)), tuple(map(_placed, bodies)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error


def missing_task_columns(body: Body) -> tuple[str, ...]:
    """Columns of tasks and their hints that a body does not have: it is of an engine that did not have them yet."""
    tables = [(body.get(name), kind) for name, kind in _TABLES if name != "remaining"]
    hint = body.get("hint")
    tables += [(hint.get(name), kind) for name, kind in _HINT_TABLES] if isinstance(hint, dict) else []
    return tuple(
        field.name
        for table, kind in tables
        if isinstance(table, dict)
        for field in dataclasses.fields(kind)
        if field.name not in table
    )


def _share_work(body: Body) -> dict[str, float]:
    reported = body["remaining"]
    return {str(name): float(hs06s) for name, hs06s in zip(reported["nucleus"], reported["share"], strict=True)}


def _placed(body: Body) -> dict[str, float]:
    return {str(name): float(hs06s) for name, hs06s in body["placed"].items()}


def _nothing_remains() -> RemainingTable:
    text, number = np.empty(0, dtype=np.object_), np.empty(0)
    return RemainingTable(text, text, text, number, number, number)
