"""The data of tasks in the mirror, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from broker.alongside.statements.table_copy import LIVE_STATUSES
from broker.store.connection.tables import Names
from broker.work.chunks import INPUT_FAMILIES

_WITHOUT_PARAMETERS = """
    SELECT t.jeditaskid FROM {panda}.jedi_tasks AS t
    WHERE t.status = ANY(:live)
      AND NOT EXISTS (SELECT FROM {panda}.jedi_taskparams AS p WHERE p.jeditaskid = t.jeditaskid)
    ORDER BY 1"""
#: Input with unused files, whose files are not all copied.
_WITHOUT_FILES = """
    SELECT d.datasetid, d.nfiles FROM {panda}.jedi_tasks AS t JOIN {panda}.jedi_datasets AS d USING (jeditaskid)
    WHERE t.status = ANY(:live) AND d.type = ANY(:types) AND d.nfilestobeused > coalesce(d.nfilesused, 0)
      AND d.nfiles > (SELECT count(*) FROM {panda}.jedi_dataset_contents AS c
                      WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid)
    ORDER BY t.currentpriority DESC NULLS LAST, 1"""
_NO_LONGER_READY = """
    UPDATE {panda}.jedi_dataset_contents AS c SET status = NULL
    WHERE c.status = 'ready' AND NOT EXISTS (
        SELECT FROM staged_copy AS s
        WHERE s.jeditaskid = c.jeditaskid AND s.datasetid = c.datasetid AND s.fileid = c.fileid)"""
_REMOVE_ENDED = """
    DELETE FROM {panda}.%s AS c
    WHERE NOT EXISTS (
        SELECT FROM {panda}.jedi_tasks AS t
        WHERE t.jeditaskid = c.jeditaskid AND (t.status = ANY(:live) OR t.modificationtime > :until))"""
_HERE = "SELECT count(*) FROM {panda}.jedi_dataset_contents WHERE jeditaskid = :task AND datasetid = :dataset"
_CLAIMED = """
    UPDATE {panda}.jedi_dataset_contents SET status = 'picked'
    WHERE jeditaskid = :task AND fileid = ANY(:files) AND status IS DISTINCT FROM 'picked'"""


def tasks_without_parameters(connection: sa.Connection, names: Names) -> list[int]:
    """Live tasks whose parameters were not copied."""
    tasks = connection.scalars(sa.text(names.sql(_WITHOUT_PARAMETERS)), {"live": list(LIVE_STATUSES)})
    return [int(task) for task in tasks]


def datasets_without_files(connection: sa.Connection, names: Names, most_files: int) -> list[int]:
    """Incompletely copied input of live tasks by priority: at most ``most_files`` files, but at least one dataset."""
    values = {"live": list(LIVE_STATUSES), "types": list(INPUT_FAMILIES)}
    datasets: list[int] = []
    files = 0
    for dataset, count in connection.execute(sa.text(names.sql(_WITHOUT_FILES)), values):
        files += int(count)
        if datasets and files > most_files:
            break
        datasets.append(int(dataset))
    return datasets


def forget_ready(connection: sa.Connection, names: Names) -> None:
    """Set the status of files that are ready here, but not staged, to unknown."""
    connection.exec_driver_sql(names.sql(_NO_LONGER_READY))


def remove_ended(connection: sa.Connection, names: Names, until: datetime) -> None:
    """Remove the files and parameters of tasks that no brokerage reads, last modified by ``until`` (naive UTC)."""
    for table in ("jedi_dataset_contents", "jedi_taskparams"):
        connection.execute(sa.text(names.sql(_REMOVE_ENDED % table)), {"live": list(LIVE_STATUSES), "until": until})


def files_here(connection: sa.Connection, names: Names, task: int, dataset: int) -> int:
    """How many files of a dataset were copied."""
    return int(connection.scalar(sa.text(names.sql(_HERE)), {"task": task, "dataset": dataset}) or 0)


def claim_files(connection: sa.Connection, names: Names, task: int, files: Sequence[int]) -> None:
    """Mark files as claimed for a chunk, as JEDI has just done."""
    connection.execute(sa.text(names.sql(_CLAIMED)), {"task": task, "files": list(files)})


def newest_job(connection: sa.Connection, names: Names) -> datetime | None:
    """When the newest of the copied jobs was made (aware)."""
    selects = (f"SELECT max(creationtime) AS at FROM {names.table(table)}"  # noqa: S608 - quoted names
            for table in ("jobsdefined4", "jobsactive4", "jobsarchived4"))  # fmt: skip
    newest = connection.scalar(sa.text(f"SELECT max(at) FROM ({' UNION ALL '.join(selects)}) AS newest"))  # noqa: S608
    return None if newest is None else newest.replace(tzinfo=UTC)
