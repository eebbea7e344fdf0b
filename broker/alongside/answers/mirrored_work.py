"""Copy the data read with tasks: parameters, files, ended jobs, and for shadow mode where JEDI placed jobs.

Tables of files and parameters are too large to be copied as a whole every time. Parameters are copied once for a live
task. All files of a dataset are copied once, as the replica catalogue counts files in the order of all; after that,
only which of them are ready. The plug-in copies what a call needs of its own task during the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from broker.alongside.answers.mirroring import CopiedRows, Mirror, PartReport
from broker.alongside.model.panda_reader import ReadFailed
from broker.alongside.statements import copy_records, copy_writing, mirrored_tasks
from broker.alongside.statements.copied_tables import (
    DATASETS,
    ENDED_JOBS,
    FILES,
    PARAMETERS,
    READY_FILES,
    TASKS,
    WAITS,
    placement_copies,
)
from broker.alongside.statements.table_copy import Slice, TableCopy, instants, numbered
from broker.domain.instants import naive
from broker.store.connection.tables import JOB_TABLES

WORK = "work"
FILES_AT_ONCE = 500_000
"""Files of new datasets copied in one run; the rest follows in the next."""
DONE_JOB_HOURS = 6.0
"""TW_DONE_JOB_STAT as shipped; a call of the plug-in uses the value in force."""
_NUMBERS_AT_ONCE = 500
_ENDED_STAY = timedelta(days=1)
_FIRST_JOBS, _OVERLAP = timedelta(days=1), timedelta(minutes=15)


def copy_work(mirror: Mirror, every: timedelta) -> PartReport:
    """Copy the data of live tasks that shadow mode and cycles of the service read."""
    report = PartReport(mirror.claim(WORK, every), [], {})
    if not report.claimed:
        return report
    names = mirror.database.names
    try:
        with mirror.database.read_snapshot() as connection:
            tasks = mirrored_tasks.tasks_without_parameters(connection, names)
            datasets = mirrored_tasks.datasets_without_files(connection, names, FILES_AT_ONCE)
            newest = mirrored_tasks.newest_job(connection, names)
        _merge_noted(mirror, report, PARAMETERS, "jeditaskid", tasks)
        _merge_noted(mirror, report, FILES, "datasetid", datasets)
        _copy_ready(mirror, report)
        now = mirror.clock()
        mirror.copy(WORK, ENDED_JOBS, report, {":done_jobs_since": _before(now, timedelta(hours=DONE_JOB_HOURS))})
        mirror.copy(WORK, WAITS, report)
        since = _before(now, _FIRST_JOBS) if newest is None else _before(newest, _OVERLAP)
        for table in JOB_TABLES:
            for copy in placement_copies(table):
                mirror.copy(WORK, copy, report, {":made_since": since})
        with mirror.database.begin() as connection:
            copy_writing.allow_writing(connection, FILES.name, PARAMETERS.name)
            mirrored_tasks.remove_ended(connection, names, _before(mirror.clock(), _ENDED_STAY))
    finally:
        mirror.release(WORK)
    return report


def copy_tasks_of_call(mirror: Mirror, tasks: Sequence[int]) -> None:
    """Update tasks that JEDI has just claimed, with datasets and parameters.

    Raises:
        ReadFailed: PanDA's database gave no answer.
    """
    for copy in (TASKS, DATASETS, PARAMETERS):
        _merge(mirror, copy, "jeditaskid", tasks)


def copy_chunk_of_call(
    mirror: Mirror,
    task: int,
    datasets: Mapping[int, int],
    files: Sequence[int],
    *,
    parameters: bool = False,
    done_job_hours: float | None = None,
) -> None:
    """Update the data that the decision on a chunk reads of its own task.

    Args:
        mirror: makes the copies.
        task: of the chunk.
        datasets: of the chunk, with their numbers of files.
        files: ids of the chunk's files, which JEDI has claimed.
        parameters: whether the brokerage reads the row and the parameters of the task.
        done_job_hours: how far back ended jobs count; None if the brokerage does not need them.

    Raises:
        ReadFailed: PanDA's database gave no answer.
    """
    names = mirror.database.names
    with mirror.database.read_snapshot() as connection:
        incomplete = [
            dataset
            for dataset, count in datasets.items()
            if mirrored_tasks.files_here(connection, names, task, dataset) < count
        ]
    _merge(mirror, FILES, "datasetid", incomplete)
    for copy in (TASKS, PARAMETERS) if parameters else ():
        _merge(mirror, copy, "jeditaskid", [task])
    if done_job_hours is not None:
        _copy_ended_jobs(mirror, task, done_job_hours)
    with mirror.database.begin() as connection:
        copy_writing.allow_writing(connection, FILES.name)
        mirrored_tasks.claim_files(connection, names, task, files)


def _copy_ended_jobs(mirror: Mirror, task: int, hours: float) -> None:
    """Replace the counts of one task."""
    now = mirror.clock()
    condition, binds = numbered("c.jeditaskid", [task])
    known = {**instants(now), **binds, ":done_jobs_since": _before(now, timedelta(hours=hours))}
    slices = (replace(ENDED_JOBS.slices[0], where=f"c.modificationtime > :done_jobs_since AND {condition}"),)
    copy = replace(ENDED_JOBS, slices=slices, joined=None)
    copied = mirror.read(copy, known)
    with mirror.database.begin() as connection:
        copy_writing.allow_writing(connection, copy.name)
        copy_writing.make_counted_table(connection, mirror.database.names, copy)
        copy_writing.remove_tasks(connection, mirror.database.names, copy.name, [task])
        _merge_rows(mirror, connection, copy, copied)


def _copy_ready(mirror: Mirror, report: PartReport) -> None:
    """Copy which files of live tasks are ready; those that no longer are have no known status."""
    started = mirror.clock()
    try:
        copied = mirror.read(READY_FILES, instants(started))
    except ReadFailed as error:
        _note_failed(mirror, report, READY_FILES.name, started, error)
        return
    with mirror.database.begin() as connection:
        copy_writing.allow_writing(connection, READY_FILES.name)
        _merge_rows(mirror, connection, READY_FILES, copied)
        mirrored_tasks.forget_ready(connection, mirror.database.names)
        _note_read(mirror, connection, READY_FILES.name, started, copied)
    report.copied.append(READY_FILES.name)


def _merge_noted(mirror: Mirror, report: PartReport, copy: TableCopy, column: str, numbers: Sequence[int]) -> None:
    started = mirror.clock()
    try:
        _merge(mirror, copy, column, numbers)
    except ReadFailed as error:
        _note_failed(mirror, report, copy.name, started, error)
        return
    with mirror.database.begin() as connection:
        _note_read(mirror, connection, copy.name, started, CopiedRows((), [], ()))
        copy_records.extend(connection, WORK, mirror.clock() + copy_records.CLAIM)
    report.copied.append(copy.name)


def _merge(mirror: Mirror, copy: TableCopy, column: str, numbers: Sequence[int]) -> None:
    """Add or change the rows of a table whose ``column`` has one of the ``numbers``."""
    for first in range(0, len(numbers), _NUMBERS_AT_ONCE):
        condition, binds = numbered(f"c.{column}", numbers[first : first + _NUMBERS_AT_ONCE])
        copied = mirror.read(replace(copy, slices=(Slice(condition),), joined=None), binds)
        with mirror.database.begin() as connection:
            copy_writing.allow_writing(connection, copy.name)
            _merge_rows(mirror, connection, copy, copied)


def _merge_rows(mirror: Mirror, connection: Any, copy: TableCopy, copied: CopiedRows) -> None:
    copy_writing.stage(connection, mirror.database.names, copy, copied.columns, copied.rows)
    copy_writing.merge_rows(connection, mirror.database.names, copy, copied.columns)


def _note_read(mirror: Mirror, connection: Any, name: str, started: datetime, copied: CopiedRows) -> None:
    read_s = (mirror.clock() - started).total_seconds()
    copy_records.note_read(
        connection, name, WORK, started, rows=len(copied.rows), read_s=read_s, sha256="", lacking=copied.lacking
    )


def _note_failed(mirror: Mirror, report: PartReport, name: str, started: datetime, error: ReadFailed) -> None:
    report.failed[name] = message = f"ReadFailed: {error}"
    with mirror.database.begin() as connection:
        copy_records.note_failed(connection, name, WORK, started, message)


def _before(now: datetime, age: timedelta) -> datetime:
    """The instant an ``age`` before ``now``, as PanDA stores times: UTC without a zone."""
    return naive(now - age)
