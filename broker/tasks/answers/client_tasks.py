"""Tasks as panda-client shows them: under the names of PanDA's attributes, times as text in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.errors import NotFound
from broker.store.connection.database import Database
from broker.tasks.model.client_filters import TaskFilter, percent, super_status
from broker.tasks.statements import client_reads
from broker.tasks.statements.client_reads import Row

MOST_FILES = 100_000
UNSUCCESSFUL = ("failed", "cancelled", "closed")
_TASK_NAMES = {
    "jeditaskid": "jediTaskID", "reqid": "reqID", "taskname": "taskName", "username": "userName",
    "creationdate": "creationDate", "modificationtime": "modificationTime", "status": "status", "vo": "vo",
    "prodsourcelabel": "prodSourceLabel", "processingtype": "processingType", "corecount": "coreCount",
    "ramcount": "ramCount", "starttime": "startTime", "endtime": "endTime", "errordialog": "errorDialog",
    "parent_tid": "parent_tid",
}  # fmt: skip
_JOB_NAMES = {
    "pandaid": "PandaID", "jobstatus": "jobStatus", "attemptnr": "attemptNr", "computingsite": "computingSite",
    "jobname": "jobName", "creationtime": "creationTime", "modificationtime": "modificationTime",
    "starttime": "startTime", "endtime": "endTime", "transexitcode": "transExitCode",
    "piloterrorcode": "pilotErrorCode", "piloterrordiag": "pilotErrorDiag", "exeerrorcode": "exeErrorCode",
    "exeerrordiag": "exeErrorDiag",
}  # fmt: skip


def client_tasks(database: Database, criteria: TaskFilter) -> list[dict[str, Any]]:
    """The requested tasks, the newest first."""
    with database.read_snapshot() as connection:
        return [_task_object(row) for row in client_reads.find_tasks(connection, database.names, criteria)]


def client_task(database: Database, task: int) -> dict[str, Any]:
    """One task.

    Raises:
        NotFound: there is no task with that number.
    """
    with database.read_snapshot() as connection:
        return _task_object(_task_row(connection, database, task))


def task_parameters(database: Database, task: int) -> dict[str, Any]:
    """The parameters that a task was made from.

    Raises:
        NotFound: there is no such task.
    """
    with database.read_snapshot() as connection:
        _task_row(connection, database, task)
        return client_reads.read_parameters(connection, database.names, task)


def jobs_of_task(database: Database, task: int, *, unsuccessful_only: bool = False) -> list[dict[str, Any]]:
    """The jobs of a task that are not archived yet, in the order in which they were made.

    Raises:
        NotFound: there is no such task.
    """
    statuses = UNSUCCESSFUL if unsuccessful_only else None
    with database.read_snapshot() as connection:
        _task_row(connection, database, task)
        return [_named(row, _JOB_NAMES) for row in client_reads.read_jobs(connection, database.names, task, statuses)]


def files_of_task(database: Database, task: int, types: Sequence[str]) -> list[dict[str, Any]]:
    """The datasets of a task of some types (input, pseudo_input, output, log), each with its files.

    Raises:
        NotFound: there is no such task.
    """
    with database.read_snapshot() as connection:
        _task_row(connection, database, task)
        datasets, files = client_reads.read_files(connection, database.names, task, types, MOST_FILES)
    listed: dict[int, list[dict[str, Any]]] = {row["datasetid"]: [] for row in datasets}
    for file in files:
        entry = {"lfn": file["lfn"], "scope": file["scope"], "file_id": file["fileid"], "status": file["status"]}
        listed[file["datasetid"]].append(entry)
    return [
        {"dataset": {"name": row["datasetname"], "id": row["datasetid"]}, "files": listed[row["datasetid"]]}
        for row in datasets
    ]


def _task_row(connection: sa.Connection, database: Database, task: int) -> Row:
    row = client_reads.find_task(connection, database.names, task)
    if row is None:
        raise NotFound(f"there is no task {task}", "jedi_tasks", "see pbook: show()")
    return row


def _task_object(row: Row) -> dict[str, Any]:
    """A task with its progress."""
    files, finished, failed = (int(row[name] or 0) for name in ("nfiles", "nfilesfinished", "nfilesfailed"))
    return {
        **_named(row, _TASK_NAMES),
        "superStatus": super_status(row["status"]),
        "pctfinished": percent(finished, files),
        "pctfailed": percent(failed, files),
        "nfiles": files,
        "nfilesfinished": finished,
        "nfilesfailed": failed,
    }


def _named(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    return {name: _plain(row[column]) for column, name in names.items()}


def _plain(value: Any) -> Any:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value
