"""Reads what panda-client shows about tasks: their rows with the counts of their input, jobs, datasets and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.tasks.model.client_filters import TaskFilter

_OF_INPUT = """
    SELECT sum(nfiles) AS nfiles, sum(nfilesfinished) AS nfilesfinished, sum(nfilesfailed) AS nfilesfailed
    FROM {panda}.jedi_datasets AS dataset
    WHERE dataset.jeditaskid = task.jeditaskid AND masterid IS NULL AND type IN ('input', 'pseudo_input')"""
_COLUMNS = """
SELECT task.jeditaskid, task.reqid, task.taskname, task.username, task.creationdate, task.modificationtime, task.status,
    task.vo, task.prodsourcelabel, task.processingtype, task.corecount, task.ramcount, task.starttime, task.endtime,
    task.errordialog, task.parent_tid, of_input.nfiles, of_input.nfilesfinished, of_input.nfilesfailed
FROM {panda}.jedi_tasks AS task CROSS JOIN LATERAL (OF_INPUT) AS of_input""".replace("OF_INPUT", _OF_INPUT)
_FIND_TASKS = f"""{_COLUMNS}
WHERE task.username = :user
  AND (CAST(:since AS timestamp) IS NULL OR task.modificationtime >= :since)
  AND (CAST(:jeditaskid AS bigint) IS NULL OR task.jeditaskid = :jeditaskid)
  AND (CAST(:reqid AS bigint) IS NULL OR task.reqid = :reqid)
  AND (CAST(:taskname AS text) IS NULL OR task.taskname = :taskname)
  AND (CAST(:statuses AS text[]) IS NULL OR task.status = ANY(CAST(:statuses AS text[])))
ORDER BY task.jeditaskid DESC LIMIT :most"""
_FIND_TASK = f"{_COLUMNS} WHERE task.jeditaskid = :task"
_FIND_NAME = """
SELECT jeditaskid, status FROM {panda}.jedi_tasks WHERE username = :user AND taskname = :name
ORDER BY jeditaskid DESC LIMIT 1"""
# Of two simultaneous submissions of one name, the second one waits, and finds the task of the first.
_LOCK_NAME = "SELECT pg_advisory_xact_lock(hashtextextended('broker.taskname ' || :user || ' ' || :name, 0))"
_JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
_JOB = (
    "pandaid", "jobstatus", "attemptnr", "computingsite", "jobname", "creationtime", "modificationtime", "starttime",
    "endtime", "transexitcode", "piloterrorcode", "piloterrordiag", "exeerrorcode", "exeerrordiag",
)  # fmt: skip
_JOBS_OF_TABLE = "SELECT {columns} FROM {{panda}}.{table} WHERE jeditaskid = :task"
_FILES = """
SELECT dataset.datasetid, dataset.datasetname, dataset.type, file.lfn, file.scope, file.fileid, file.status
FROM {panda}.jedi_datasets AS dataset
JOIN {panda}.jedi_dataset_contents AS file USING (jeditaskid, datasetid)
WHERE jeditaskid = :task AND dataset.type = ANY(:types) ORDER BY dataset.datasetid, file.fileid LIMIT :most"""
_DATASETS = """
SELECT datasetid, datasetname FROM {panda}.jedi_datasets WHERE jeditaskid = :task AND type = ANY(:types)
ORDER BY datasetid"""
_PARAMETERS = "SELECT taskparams FROM {panda}.jedi_taskparams WHERE jeditaskid = :task"
Row = Mapping[str, Any]


def find_tasks(connection: sa.Connection, names: Names, criteria: TaskFilter) -> list[Row]:
    """The requested tasks, the newest first."""
    values = {
        "user": criteria.user, "since": criteria.since, "jeditaskid": criteria.jeditaskid, "reqid": criteria.reqid,
        "taskname": criteria.taskname, "statuses": None if criteria.statuses is None else list(criteria.statuses),
        "most": criteria.most,
    }  # fmt: skip
    return [dict(row) for row in connection.execute(sa.text(names.sql(_FIND_TASKS)), values).mappings()]


def find_task(connection: sa.Connection, names: Names, task: int) -> Row | None:
    """One task; None if there is no task with that number."""
    row = connection.execute(sa.text(names.sql(_FIND_TASK)), {"task": task}).mappings().first()
    return None if row is None else dict(row)


def find_same_name(connection: sa.Connection, names: Names, user: str, name: str) -> tuple[int, str] | None:
    """Number and status of a user's newest task of that name; no other is made until the transaction ends."""
    connection.execute(sa.text(_LOCK_NAME), {"user": user, "name": name})
    row = connection.execute(sa.text(names.sql(_FIND_NAME)), {"user": user, "name": name}).first()
    return None if row is None else (int(row.jeditaskid), str(row.status))


def read_jobs(connection: sa.Connection, names: Names, task: int, statuses: Sequence[str] | None = None) -> list[Row]:
    """The jobs of a task that are not archived yet, in the order in which they were made; only of those states."""
    columns = ", ".join(_JOB)
    parts = " UNION ALL ".join(_JOBS_OF_TABLE.format(columns=columns, table=table) for table in _JOB_TABLES)
    query = f"SELECT * FROM ({parts}) AS job WHERE CAST(:statuses AS text[]) IS NULL OR jobstatus = ANY(:statuses)"  # noqa: S608
    values = {"task": task, "statuses": None if statuses is None else list(statuses)}
    rows = connection.execute(sa.text(names.sql(f"{query} ORDER BY pandaid")), values)
    return [dict(row) for row in rows.mappings()]


def read_files(
    connection: sa.Connection, names: Names, task: int, types: Sequence[str], most: int
) -> tuple[list[Row], list[Row]]:
    """The datasets of a task of these types, and at most ``most`` of their files."""
    values = {"task": task, "types": list(types)}
    datasets = connection.execute(sa.text(names.sql(_DATASETS)), values).mappings()
    files = connection.execute(sa.text(names.sql(_FILES)), {**values, "most": most}).mappings()
    return [dict(row) for row in datasets], [dict(row) for row in files]


def read_parameters(connection: sa.Connection, names: Names, task: int) -> dict[str, Any]:
    """The parameters that a task was made from; empty if none are kept."""
    text = connection.execute(sa.text(names.sql(_PARAMETERS)), {"task": task}).scalar_one_or_none()
    parameters = json.loads(text) if text else {}
    return parameters if isinstance(parameters, dict) else {}
