"""Outputs on their way to Rucio: what waits and since when, what was refused and why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.query_context import NothingFound
from broker.tasks.statements import output_reads
from broker.tasks.statements.output_reads import OutputDataset, RefusedFile
from broker.tasks.statements.rucio_outputs import queue_files

__all__ = ["OutputDataset", "RefusedFile", "leave_out", "retry_refused", "task_outputs", "waiting_outputs"]
_WHERE = "broker.rucio_files"
_REMEDY = "see broker outputs list"


def waiting_outputs(connection: sa.Connection) -> list[OutputDataset]:
    """The datasets whose files wait or were refused, or whose last try failed."""
    return output_reads.read_datasets(connection)


def task_outputs(connection: sa.Connection, task: int) -> tuple[list[OutputDataset], list[RefusedFile]]:
    """The datasets of a task, and its refused files.

    Raises:
        NothingFound: no output of the task was taken on.
    """
    datasets = output_reads.read_datasets(connection, task)
    if not datasets:
        raise NothingFound("output for Rucio of task", task, _WHERE, remedy="the agent rucio_output takes tasks on")
    return datasets, output_reads.read_refused(connection, task)


def retry_refused(database: Database, task: int, files: Sequence[str] | None, now: datetime) -> int:
    """Queue refused files of a task for Rucio again; returns their number. ``files``: their names; None: all.

    Raises:
        NothingFound: none of them was refused.
    """
    with database.begin() as connection:
        datasets = output_reads.try_again(connection, task, files)
        if not datasets:
            raise NothingFound("refused file of task", task, _WHERE, remedy=_REMEDY)
        for dataset in sorted(set(datasets)):
            queue_files(connection, database.names, (task, dataset), now)
        output_reads.make_due(connection, task, now)
    return len(datasets)


def leave_out(database: Database, task: int, files: Sequence[str], who: str, why: str, now: datetime) -> int:
    """Leave out refused files of a task, so that their datasets can be closed without them; returns their number.

    Raises:
        NothingFound: none of them was refused.
    """
    with database.begin() as connection:
        number = output_reads.leave_out(connection, task, files, f"left out by {who}: {why}"[:500], now)
        if not number:
            raise NothingFound("refused file of task", task, _WHERE, remedy=_REMEDY)
        output_reads.make_due(connection, task, now)
    return number
