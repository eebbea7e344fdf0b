"""The work of tasks as bytes, stored with their decisions, so that a decision can be repeated."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.codec.column_texts import RowOfEach, RowsOfEach, to_json
from broker.codec.compression import pack_work
from broker.codec.work_codec import Body, WorkCorruptError, joined_columns, plain_columns, shifted, table_of, unpacked
from broker.domain.arrays import Floats, Ints, RowsByKind, Texts, taken
from broker.domain.task_work import (
    AssigningTable,
    OutputTable,
    PartReplicaTable,
    PartTable,
    RemainingTable,
    TaskWork,
)
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable

#: The share of work that counts for no task in particular; no name of a share has this character.
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
    """The work of several tasks, with the values stored alongside.

    Attributes:
        work: of the tasks, without the remaining work of nuclei, as each task has its own figures.
        share_work: for each task the work of its share at its priority and above that remained when the cycle began,
            HS06 s by nucleus.
        placed: for each task the work that the cycle had placed for its share before it, HS06 s by nucleus.
    """

    work: TaskWork
    share_work: tuple[Mapping[str, float], ...]
    placed: tuple[Mapping[str, float], ...]


def encode_task_work(
    work: TaskWork, nuclei: Texts, all_work: Floats, share_work: Floats, placed: Floats | None = None
) -> bytes:
    """The work of one task as compressed JSON; NaN is null.

    The remaining work of nuclei is stored as two figures each: all of it, and the part in the weight of this task.

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
    """Decode the work of one task as the cycle saw it in its turn, with earlier placements counted.

    Raises:
        WorkCorruptError: it is damaged, too large, or of an engine with other columns; the message names the column.
    """
    body = unpacked(data)
    stored = joined_tasks([body])
    try:
        stored_work = body["remaining"]
        share, placed = stored.share_work[0], stored.placed[0]
        counted = np.array([share[name] + placed.get(name, 0.0) for name in stored_work["nucleus"]], dtype=np.float64)
        nuclei = np.array(stored_work["nucleus"], dtype=np.object_)
        remaining = _remaining(stored.work.tasks, nuclei, np.array(stored_work["all"], dtype=np.float64), counted)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise WorkCorruptError(f"the stored work of a decision cannot be read: {error}") from error
    return dataclasses.replace(stored.work, remaining=remaining)


def _remaining(tasks: AssigningTable, nuclei: Texts, all_work: Floats, share_work: Floats) -> RemainingTable:
    """Work with the same two figures: that of the task's own share and priority, and the rest under no share."""
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
    """The tasks of several bodies, in this order, as one work; with ``fill``, missing columns hold NULL.

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
    """Columns of tasks and their hints missing from a body, as it is of an engine that did not have them yet."""
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
    remaining = body["remaining"]
    return {str(name): float(hs06s) for name, hs06s in zip(remaining["nucleus"], remaining["share"], strict=True)}


def _placed(body: Body) -> dict[str, float]:
    return {str(name): float(hs06s) for name, hs06s in body["placed"].items()}


def _nothing_remains() -> RemainingTable:
    text, number = np.empty(0, dtype=np.object_), np.empty(0)
    return RemainingTable(text, text, text, number, number, number)


class TaskWorkEncoder:
    """Encodes each task to the bytes that :func:`broker.codec.task_work_codec.encode_task_work` gives for it alone.

    Args:
        work: of tasks with one identifier each; rows of a task that refer to each other are neighbours.
        nuclei: (N,) their names.
        all_work: (T, N) HS06 s of remaining work of all tasks with the label of each task.
    """

    def __init__(self, work: TaskWork, nuclei: Texts, all_work: RowsByKind) -> None:
        tasks, hint = len(work.tasks), work.hint
        self._jeditaskid: list[int] = work.tasks.jeditaskid.tolist()
        self._tasks = RowOfEach(work.tasks, tasks)
        self._outputs = _Belonging(work.outputs, work.outputs.task, tasks)
        self._parts = _Belonging(work.parts, work.parts.task, tasks)
        self._replicas = _Belonging(work.replicas, work.replicas.part, tasks, self._parts)
        self._chunks = _Belonging(hint.chunks, _rows_of(hint.chunks.jeditaskid, work.tasks.jeditaskid), tasks)
        self._inputs = _Belonging(hint.inputs, hint.inputs.chunk, tasks, self._chunks)
        self._held = _Belonging(hint.replicas, hint.replicas.input, tasks, self._inputs)
        self._nuclei: list[str] = nuclei.tolist()
        self._names, self._all = to_json(self._nuclei), list(map(to_json, all_work.table.tolist()))
        self._all_of: list[int] = all_work.kinds.tolist()

    def encode(self, row: int, share_work: Floats, placed: Floats | None = None) -> bytes:
        """Encode the task at ``row``.

        Args:
            row: position of the task.
            share_work: (N,) HS06 s of the task's share at its priority and above, when the cycle began.
            placed: (N,) HS06 s that the cycle had placed for the task's share before it; None for nothing.
        """
        chunks = self._chunks.text(row, [self._jeditaskid[row]] * self._chunks.count(row))
        hint = f'"chunks":{chunks},"inputs":{self._inputs.text(row)},"replicas":{self._held.text(row)}'
        remaining = (
            f'"nucleus":{self._names},"share":{to_json(share_work.tolist())},"all":{self._all[self._all_of[row]]}'
        )
        counted = () if placed is None else placed.nonzero()[0].tolist()
        before = {} if placed is None else {str(self._nuclei[at]): float(placed[at]) for at in counted}
        parts = [
            f'{{"tasks":{self._tasks.text(row)},"outputs":{self._outputs.text(row)}',
            f'"parts":{self._parts.text(row)},"replicas":{self._replicas.text(row)}',
            f'"hint":{{{hint}}},"remaining":{{{remaining}}},"placed":{to_json(before)}}}',
        ]
        return pack_work(",".join(parts).encode())


class _Belonging:
    """The rows of a table by the task to which they belong, directly or through a row of another table.

    Args:
        table: of which the rows of a task are neighbours.
        parent: (R,) the task of each row by position, negative for none; or the row of ``of``.
        tasks: number of tasks.
        of: the other table.
    """

    def __init__(self, table: Any, parent: Ints, tasks: int, of: _Belonging | None = None) -> None:
        self._task: Ints = parent if of is None else of._task[parent]
        order = np.argsort(self._task, kind="stable")
        starts = np.searchsorted(self._task[order], np.arange(tasks + 1))
        self._place: Ints = np.empty(len(order), dtype=np.int64)
        self._place[order] = np.arange(len(order)) - starts[self._task[order]]
        places = np.zeros(len(order), dtype=np.int64) if of is None else of._place[parent]
        self._parents: list[int] = places[order].tolist()
        self._starts: list[int] = starts.tolist()
        self._rows = RowsOfEach(taken(table, order), self._starts)

    def count(self, row: int) -> int:
        """The number of rows of a task."""
        return self._starts[row + 1] - self._starts[row]

    def text(self, row: int, first: Sequence[int] | None = None) -> str:
        """The rows of a task; the first column is ``first``, or the row of the task to which each belongs."""
        own = self._parents[self._starts[row] : self._starts[row + 1]]
        return self._rows.text(row, own if first is None else first)


def _rows_of(jeditaskid: Ints, tasks: Ints) -> Ints:
    """The position of each task in ``tasks``; -1 for one that is missing."""
    if not len(tasks):
        return np.full(len(jeditaskid), -1, dtype=np.int64)
    order = np.argsort(tasks, kind="stable")
    at = order[np.minimum(np.searchsorted(tasks[order], jeditaskid), len(tasks) - 1)]
    return np.where(tasks[at] == jeditaskid, at, -1)
