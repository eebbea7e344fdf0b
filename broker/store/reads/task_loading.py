"""The work of one cycle of the task brokerage, from the tables, in the caller's transaction."""

from __future__ import annotations

import dataclasses

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import texts
from broker.domain.task_work import AssigningTable, TaskWork
from broker.domain.work import Work
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.reads.task_inputs import read_parts, wanted_inputs
from broker.store.reads.task_reads import (
    ASSIGNING,
    NO_READY_INPUT,
    TaskSelection,
    read_assigning,
    read_outputs,
    read_remaining,
)

#: Files of a dataset by which the job brokerage is asked. Source: PanDA production brokerage, input chunk.
HINT_FILES = 10


def load_task_work(connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection) -> TaskWork:
    """Read the tasks of the selection with what belongs to them.

    A task without ready input stays where it is, with a fault. What of a row cannot be used is in ``dropped_rows``.
    """
    read = read_assigning(connection, catalogue, selection)
    tasks = read.tasks
    hint = _hint(connection, catalogue, selection, tasks)
    position = {int(task): at for at, task in enumerate(tasks.jeditaskid)}
    task_of_chunk = [position[int(task)] for task in hint.chunks.jeditaskid]
    parts, replicas = read_parts(connection, catalogue, wanted_inputs(hint.inputs, task_of_chunk, read.master_only))
    return TaskWork(
        _with_input_faults(tasks, frozenset(task_of_chunk)),
        read_outputs(connection, catalogue, tasks.jeditaskid),
        parts,
        replicas,
        read_remaining(connection, catalogue),
        hint,
        (*read.dropped_rows, *hint.dropped_rows),
    )


def _hint(
    connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection, tasks: AssigningTable
) -> Work:
    """The first input files of the tasks as chunks of the job brokerage, none of them a scout."""
    wanted = WorkSelection(
        vo=selection.vo,
        labels=(),
        statuses=(ASSIGNING,),
        task_ids=tuple(tasks.jeditaskid.tolist()),
        files_of_a_dataset=HINT_FILES,
    )
    work = load_work(connection, catalogue, wanted).work
    return dataclasses.replace(work, chunks=dataclasses.replace(work.chunks, scout=np.zeros_like(work.chunks.scout)))


def _with_input_faults(tasks: AssigningTable, with_input: frozenset[int]) -> AssigningTable:
    missing = ("" if at in with_input else NO_READY_INPUT for at in range(len(tasks)))
    faults = texts(str(own) or none for own, none in zip(tasks.fault, missing, strict=True))
    return dataclasses.replace(tasks, fault=faults)
