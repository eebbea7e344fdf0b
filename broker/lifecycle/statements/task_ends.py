"""Reads the tasks whose work is done, and ends them. Standalone only: alongside PanDA, JEDI ends its tasks.

Source: PanDA JEDI, ends of tasks; PanDA data model, tasks and datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.pilots.model.job_outcome import TaskStatus, stopped_end, task_end
from broker.store.connection.tables import Names
from broker.store.writes.job_row_sql import HOST

GOING_ON = ("ready", "running", "scouting", "scouted", "pending")
"""Statuses of a task that may end by itself."""
STOPPING = ("aborting", "finishing")
"""Statuses of a task that was told to end: it ends when its last job has ended."""

# The primary input counts. Tasks with a job that has not ended, or whose input may still grow, go on.
_READ_TASKS_TO_END = """
SELECT task.jeditaskid, task.status, sums.to_be_used, sums.finished, sums.failed, sums.may_grow
FROM {panda}.jedi_tasks AS task
CROSS JOIN LATERAL (
    SELECT coalesce(sum(coalesce(nfilestobeused, nfiles)), 0)::bigint AS to_be_used,
        coalesce(sum(nfilesfinished), 0)::bigint AS finished, coalesce(sum(nfilesfailed), 0)::bigint AS failed,
        coalesce(bool_or(state = 'mutable'), false) AS may_grow
    FROM {panda}.jedi_datasets AS dataset
    WHERE dataset.jeditaskid = task.jeditaskid AND dataset.masterid IS NULL
      AND dataset.type IN ('input', 'pseudo_input')
) AS sums
WHERE task.status = ANY(:going_on)
  AND (CAST(:tasks AS bigint[]) IS NULL OR task.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND (task.status = ANY(:stopping) OR sums.finished + sums.failed > 0
    AND (task.status = 'scouting' OR NOT sums.may_grow AND sums.finished + sums.failed >= sums.to_be_used))
  AND NOT EXISTS (SELECT FROM {panda}.jobsactive4 AS job WHERE job.jeditaskid = task.jeditaskid)
  AND NOT EXISTS (SELECT FROM {panda}.jobsdefined4 AS job WHERE job.jeditaskid = task.jeditaskid)
ORDER BY task.jeditaskid LIMIT :most"""
_LOCK_TASKS = """
SELECT jeditaskid FROM {panda}.jedi_tasks WHERE jeditaskid = ANY(:ids) AND status = ANY(:going_on)
ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED"""
_END_TASKS = """
WITH given AS (
    SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:statuses AS text[]), CAST(:reasons AS text[]))
        AS given (jeditaskid, status, reason)
), changed AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = given.status, oldstatus = NULL, statechangetime = :now, modificationtime = :now, errordialog = NULL,
        endtime = CASE WHEN given.status = 'running' THEN task.endtime ELSE :now END,
        superstatus = CASE WHEN given.status = 'running' THEN task.superstatus ELSE given.status END,
        splitrule = CASE WHEN given.status = 'running'
            THEN regexp_replace(task.splitrule, '(^|,)US=2(,|$)', '\\1US=3\\2') ELSE task.splitrule END
    FROM given WHERE task.jeditaskid = given.jeditaskid
    RETURNING task.jeditaskid, task.status, task.attemptnr, given.reason
), outputs AS (
    UPDATE {panda}.jedi_datasets AS dataset
    SET status = changed.status, state = 'closed', modificationtime = :now
    FROM changed
    WHERE changed.status <> 'running' AND dataset.jeditaskid = changed.jeditaskid
      AND dataset.type IN ('output', 'log', 'lib')
), attempts AS (
    UPDATE {panda}.task_attempts AS attempt SET endtime = :now, endstatus = changed.status
    FROM changed
    WHERE changed.status <> 'running' AND attempt.jeditaskid = changed.jeditaskid AND attempt.endtime IS NULL
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, :now, status, attemptnr, left(reason, 255), 'HOST' FROM changed""".replace("HOST", HOST)


@dataclass(frozen=True)
class TaskChange:
    """A task that ends, or that goes on after its scouts; ``reason`` is for its log."""

    jeditaskid: int
    status: TaskStatus | str
    reason: str


def read_ending(
    connection: sa.Connection, names: Names, most: int, tasks: Sequence[int] | None = None
) -> list[TaskChange]:
    """The tasks without remaining work, and those whose scouts have ended."""
    parameters: dict[str, Any] = {"going_on": [*GOING_ON, *STOPPING], "stopping": list(STOPPING)}
    parameters |= {"tasks": None if tasks is None else list(tasks), "most": most}
    changes = []
    for row in connection.execute(sa.text(names.sql(_READ_TASKS_TO_END)), parameters):
        if row.status in STOPPING:
            stopped = stopped_end(row.status, row.to_be_used, row.finished)
            changes.append(TaskChange(row.jeditaskid, stopped, f"{row.finished} of {row.to_be_used} files finished"))
            continue
        end = None if row.may_grow else task_end(row.to_be_used, row.finished, row.failed)
        if end is not None:
            changes.append(TaskChange(row.jeditaskid, end, f"{row.finished} files finished, {row.failed} failed"))
        elif row.status == "scouting" and row.finished:
            changes.append(TaskChange(row.jeditaskid, "running", f"{row.finished} files finished by scouts"))
    return changes


def write_ending(
    connection: sa.Connection, names: Names, changes: Sequence[TaskChange], now: datetime
) -> list[TaskChange]:
    """End the tasks that no other transaction has locked; returns their changes."""
    if not changes:
        return []
    parameters = {"ids": [change.jeditaskid for change in changes], "going_on": [*GOING_ON, *STOPPING]}
    free = set(connection.execute(sa.text(names.sql(_LOCK_TASKS)), parameters).scalars())
    chosen = [change for change in changes if change.jeditaskid in free]
    values = {
        "ids": [change.jeditaskid for change in chosen],
        "statuses": [change.status for change in chosen],
        "reasons": [change.reason for change in chosen],
        "now": naive(now),
    }
    connection.execute(sa.text(names.sql(_END_TASKS)), values)
    return chosen
