"""The parent of a task, by number or name, and the state of a task that a submission reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.tasks.model.task import InputFile
from broker.tasks.model.values import BadParameter

# The newest of that name: a task may be submitted again.
_FIND_PARENT = """
SELECT jeditaskid FROM {panda}.jedi_tasks
WHERE CASE WHEN CAST(:number AS bigint) IS NULL THEN taskname = :name AND username = :user ELSE jeditaskid = :number END
ORDER BY jeditaskid DESC LIMIT 1"""
_READ_STATE = """
SELECT task.taskname AS name, task.status,
    coalesce(task.splitrule, '') AS split_rule,
    ARRAY(SELECT feed.reason FROM broker.task_input_feeds AS feed
          WHERE feed.jeditaskid = task.jeditaskid AND feed.reason IS NOT NULL ORDER BY feed.datasetid) AS reasons
FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = :task"""

_READ_PRIMARY_FILES = """
SELECT file.datasetid, file.fsize, file.nevents
FROM {panda}.jedi_dataset_contents AS file JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid, datasetid)
WHERE file.jeditaskid = :task AND dataset.masterid IS NULL AND dataset.type IN ('input', 'pseudo_input')
ORDER BY file.datasetid, file.fileid"""
FILES_READ_AT_ONCE = 20_000


@dataclass(frozen=True)
class TaskState:
    """What a submission reports: name, status, split rule, and what its input waits for."""

    name: str
    status: str
    split_rule: str
    reasons: tuple[str, ...]


def find_parent(connection: sa.Connection, names: Names, parent: int | str, user: str) -> int:
    """The number of the parent.

    Raises:
        BadParameter: there is no such task.
    """
    number, name = (parent, None) if isinstance(parent, int) else (None, parent)
    values = {"number": number, "name": name, "user": user}
    task_id = connection.scalar(sa.text(names.sql(_FIND_PARENT)), values)
    if task_id is None:
        field = "parentTaskID" if name is None else "parentTaskName"
        raise BadParameter(field, parent, "there is no such task", "see broker tasks")
    return int(task_id)


def find_task_state(connection: sa.Connection, names: Names, task_id: int) -> TaskState:
    """The state of a task that exists."""
    row = connection.execute(sa.text(names.sql(_READ_STATE)), {"task": task_id}).one()
    return TaskState(row.name, row.status, row.split_rule, tuple(row.reasons))


def files_to_count(connection: sa.Connection, names: Names, task_id: int) -> Iterator[tuple[int, InputFile]]:
    """The files of the primary input, each with its dataset, as they come."""
    query = sa.text(names.sql(_READ_PRIMARY_FILES)).execution_options(yield_per=FILES_READ_AT_ONCE)
    for row in connection.execute(query, {"task": task_id}):
        yield row.datasetid, InputFile("", fsize=row.fsize, nevents=row.nevents)
