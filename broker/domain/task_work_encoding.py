"""The tasks of a work as bytes, each by itself: what they have in common is worked out for a block of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, Texts, taken
from broker.domain.column_texts import RowOfEach, RowsOfEach, to_json
from broker.domain.rows_by_kind import RowsByKind
from broker.domain.task_work import TaskWork
from broker.domain.work_bytes import pack_work


class TaskWorkEncoder:
    """Gives for each task the bytes that :func:`broker.domain.task_work_codec.encode_task_work` gives for it alone.

    Args:
        work: of tasks with an identifier each; rows of a task that refer to each other are neighbours.
        nuclei: (N,) their names.
        all_work: (T, N) HS06 s that all tasks of the label of each have to do there.
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
        """The task at ``row``.

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
        tasks: how many there are.
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
        """How many rows the task has."""
        return self._starts[row + 1] - self._starts[row]

    def text(self, row: int, first: Sequence[int] | None = None) -> str:
        """The rows of a task; the first column is as given, or says which row of the task's own each belongs to."""
        own = self._parents[self._starts[row] : self._starts[row + 1]]
        return self._rows.text(row, own if first is None else first)


def _rows_of(jeditaskid: Ints, tasks: Ints) -> Ints:
    """The position of each task among the tasks; -1 for one that is not there."""
    if not len(tasks):
        return np.full(len(jeditaskid), -1, dtype=np.int64)
    order = np.argsort(tasks, kind="stable")
    at = order[np.minimum(np.searchsorted(tasks[order], jeditaskid), len(tasks) - 1)]
    return np.where(tasks[at] == jeditaskid, at, -1)
