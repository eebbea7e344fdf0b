"""The parent of a task, by number or name, and what a submission is told about a task."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection.names import Names
from broker.tasks.model.problems import BadParameter

# The newest of that name: a task may be submitted again.
_FIND_PARENT = """
SELECT jeditaskid FROM {panda}.jedi_tasks
WHERE CASE WHEN CAST(:number AS bigint) IS NULL THEN taskname = :name AND username = :user ELSE jeditaskid = :number END
ORDER BY jeditaskid DESC LIMIT 1"""
_READ_STATE = """
SELECT task.taskname AS name, task.status,
    (SELECT coalesce(sum(nfiles), 0)::bigint FROM {panda}.jedi_datasets AS dataset
     WHERE dataset.jeditaskid = task.jeditaskid AND dataset.masterid IS NULL
       AND dataset.type IN ('input', 'pseudo_input')) AS files,
    ARRAY(SELECT feed.reason FROM broker.task_input_feeds AS feed
          WHERE feed.jeditaskid = task.jeditaskid AND feed.reason IS NOT NULL ORDER BY feed.datasetid) AS reasons
FROM {panda}.jedi_tasks AS task WHERE task.jeditaskid = :task"""


@dataclass(frozen=True)
class TaskState:
    """What a submission is told: name, status, files of the primary input, and what its input waits for."""

    name: str
    status: str
    files: int
    reasons: tuple[str, ...]


def find_parent(connection: sa.Connection, names: Names, parent: int | str, user: str) -> int:
    """The number of the parent.

    Raises:
        BadParameter: there is no such task.
    """
    number, name = (parent, None) if isinstance(parent, int) else (None, parent)
    values = {"number": number, "name": name, "user": user}
    found = connection.scalar(sa.text(names.sql(_FIND_PARENT)), values)
    if found is None:
        field = "parentTaskID" if name is None else "parentTaskName"
        raise BadParameter(field, parent, "there is no such task", "see broker tasks")
    return int(found)


def find_task_state(connection: sa.Connection, names: Names, task_id: int) -> TaskState:
    """The state of a task that is there."""
    row = connection.execute(sa.text(names.sql(_READ_STATE)), {"task": task_id}).one()
    return TaskState(row.name, row.status, int(row.files), tuple(row.reasons))
