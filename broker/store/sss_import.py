"""Jobs and tasks of SSS Job Objects into PanDA's tables and out of them, each document in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.errors import Refused
from broker.formats.sss import from_panda
from broker.formats.sss.inheritance import WholeJob
from broker.formats.sss.job_columns import MappedJob
from broker.formats.sss.kept import KeptRow, kept_rows
from broker.formats.sss.model import Document
from broker.formats.sss.task_columns import MappedTask
from broker.store import migrate, sss_rows
from broker.store.database import Database
from broker.store.names import Names, quoted
from broker.store.sss_rows import Identity
from broker.store.tables import TableCatalogue

JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
_TABLE_OF = {
    **dict.fromkeys(("pending", "defined", "waiting", "assigned", "throttled"), "jobsdefined4"),
    **dict.fromkeys(("finished", "failed", "cancelled", "closed"), "jobsarchived4"),
}
_COLUMN_NAMES = {"creationHost": "creatorhost"}
"""Names of the model that the tables write differently."""

# An arbitrary constant: one import or submission at a time gives out task ids.
TASK_ID_LOCK = 4_706_178_261


class NotOurTables(Refused):
    """Beside PanDA, jobs and tasks come from PanDA's own interfaces."""


class AlreadyThere(Refused):
    """A job or task of this id exists."""


class NotThere(Refused):
    """No such job or task."""


@dataclass(frozen=True)
class ImportedJob:
    """A job that was written: its new id, the one it came with, and what had no column."""

    pandaid: int
    job_id: str
    table: str
    unmapped: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """What an import wrote; ``jeditaskid`` is ``None`` for a document of a single job without a task."""

    jeditaskid: int | None
    jobs: tuple[ImportedJob, ...]
    unmapped: tuple[str, ...] = ()


def check_standalone(database: Database) -> None:
    """Refuse where PanDA's tables are PanDA's.

    Raises:
        NotOurTables: they are.
    """
    if migrate.check(database) != migrate.STANDALONE:
        raise NotOurTables(
            "the job and task tables belong to a PanDA installation", repr(database), "submit to PanDA instead"
        )


def next_task_id(connection: sa.Connection, names: Names) -> int:
    """An unused task id; nobody else is given one before the transaction ends."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": TASK_ID_LOCK})
    table = names.table("jedi_tasks")
    return int(connection.scalar(sa.text(f"SELECT coalesce(max(jeditaskid), 0) + 1 FROM {table}")) or 1)  # noqa: S608


def insert_row(connection: sa.Connection, names: Names, table: str, row: Mapping[str, Any]) -> None:
    """Insert one row into one of PanDA's tables."""
    columns = ", ".join(quoted(column) for column in row)
    values = ", ".join(f":{column}" for column in row)
    connection.execute(sa.text(f"INSERT INTO {names.table(table)} ({columns}) VALUES ({values})"), dict(row))  # noqa: S608


def import_document(
    database: Database,
    task: MappedTask | None,
    jobs: Sequence[tuple[WholeJob, MappedJob]],
    now: datetime,
    *,
    same_instance: bool = False,
) -> Imported:
    """Write a document: a row for the group, one for each job, and what has no column.

    Args:
        database: standalone, with the current schema.
        task: the group, ``None`` for a single job.
        jobs: its jobs.
        now: time of the import (aware).
        same_instance: the document is our own export, so that jobs have the ids that they name.

    Raises:
        NotOurTables: beside PanDA.
        AlreadyThere: a job of our own export is there.
        Refused: a job or the group cannot be a row; nothing was written.
    """
    check_standalone(database)
    stamp = now.replace(tzinfo=None)
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        task_id = None if task is None else _add_task(connection, catalogue, task, stamp)
        written = [_add_job(connection, catalogue, one, task, task_id, stamp, same_instance) for one in jobs]
    return Imported(task_id, tuple(written), () if task is None else task.unmapped)


def _add_task(connection: sa.Connection, catalogue: TableCatalogue, task: MappedTask, stamp: datetime) -> int:
    if task.columns is None:
        raise Refused(f"the group cannot be a task: {task.refused}", task.group_id, "; ".join(task.notes))
    task_id = next_task_id(connection, catalogue.names)
    row = _row(catalogue, "jedi_tasks", task.columns)
    insert_row(connection, catalogue.names, "jedi_tasks", {"modificationtime": stamp, **row, "jeditaskid": task_id})
    sss_rows.add_identity(connection, "task", task_id, Identity("", task.group_id))
    return task_id


def _add_job(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    one: tuple[WholeJob, MappedJob],
    task: MappedTask | None,
    task_id: int | None,
    stamp: datetime,
    same_instance: bool,
) -> ImportedJob:
    whole, mapped = one
    if mapped.columns is None:
        raise Refused(f"the job cannot be one of PanDA's: {mapped.refused}", mapped.job_id, "; ".join(mapped.notes))
    table = _TABLE_OF.get(str(mapped.columns["jobStatus"]), "jobsactive4")
    pandaid = _job_id(connection, catalogue.names, mapped, same_instance)
    row = _row(catalogue, table, mapped.columns)
    row |= {"pandaid": pandaid, "modificationtime": stamp, "statechangetime": stamp}
    if "currentpriority" in row:
        row["assignedpriority"] = row["currentpriority"]
    if task_id is not None:
        row["jeditaskid"] = task_id
    elif not same_instance:
        row.pop("jeditaskid", None)
    insert_row(connection, catalogue.names, table, row)
    job = whole.job
    group_id = None if task is None else task.group_id
    sss_rows.add_identity(connection, "job", pandaid, Identity(mapped.job_id, group_id, job.text("GlobalJobId")))
    columnless = ["Arguments"] if "jobParameters" in mapped.columns else []  # PanDA has them in a table of their own
    kept: Sequence[KeptRow] = kept_rows(job, [*mapped.unmapped, *columnless], mapped.request)
    sss_rows.add_properties(connection, "job", pandaid, kept)
    return ImportedJob(pandaid, mapped.job_id, table, mapped.unmapped, mapped.notes)


def _job_id(connection: sa.Connection, names: Names, mapped: MappedJob, same_instance: bool) -> int:
    wanted = (mapped.columns or {}).get("PandaID")
    sequence = f"{quoted(names.panda)}.{quoted('jobsdefined4_pandaid_seq')}"
    if not same_instance or not isinstance(wanted, int):
        return int(connection.scalar(sa.text("SELECT nextval(:name)"), {"name": sequence}) or 0)
    if find_job(connection, names, wanted) is not None:
        raise AlreadyThere(f"job {wanted} is there", "the job tables", "import it without --same-instance for a copy")
    statement = f"SELECT setval(:name, greatest(:id, (SELECT last_value FROM {sequence})))"  # noqa: S608 - quoted names
    connection.execute(sa.text(statement), {"name": sequence, "id": wanted})
    return wanted


def _row(catalogue: TableCatalogue, table: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that the table has, by their names there; times as times."""
    present = catalogue.columns_present(table)
    named = {_COLUMN_NAMES.get(name, name).lower(): value for name, value in columns.items() if name != "PandaID"}
    return {name: _value(name, value) for name, value in named.items() if name in present}


def _value(name: str, value: Any) -> Any:
    if (name.endswith("time") and isinstance(value, str)) or name in ("creationdate", "ttcrequested"):
        return datetime.fromisoformat(str(value))
    return value


def find_job(connection: sa.Connection, names: Names, pandaid: int) -> dict[str, Any] | None:
    """The row of a job, whichever table it is in; ``None`` without one."""
    for table in JOB_TABLES:
        statement = sa.text(f"SELECT * FROM {names.table(table)} WHERE pandaid = :id")  # noqa: S608 - quoted names
        row = connection.execute(statement, {"id": pandaid}).mappings().first()
        if row is not None:
            return dict(row)
    return None


def export_job(database: Database, pandaid: int, instance: str) -> Document:
    """A job as a document.

    Raises:
        NotThere: there is no such job.
    """
    with database.read_snapshot() as connection:
        row = find_job(connection, database.names, pandaid)
        if row is None:
            raise NotThere(f"there is no job {pandaid}", "the job tables", "name a pandaid that is there")
        return from_panda.job_document(row, sss_rows.properties(connection, "job", pandaid), instance)


def export_task(database: Database, jeditaskid: int, instance: str) -> Document:
    """A task with its jobs as a document.

    Raises:
        NotThere: there is no such task, or it has no jobs.
    """
    names = database.names
    with database.read_snapshot() as connection:
        statement = sa.text(f"SELECT * FROM {names.table('jedi_tasks')} WHERE jeditaskid = :id")  # noqa: S608 - as above
        task = connection.execute(statement, {"id": jeditaskid}).mappings().first()
        if task is None:
            raise NotThere(f"there is no task {jeditaskid}", "jedi_tasks", "name a jeditaskid that is there")
        rows: list[dict[str, Any]] = []
        for table in JOB_TABLES:
            found = sa.text(f"SELECT * FROM {names.table(table)} WHERE jeditaskid = :id ORDER BY pandaid")  # noqa: S608
            rows += [dict(row) for row in connection.execute(found, {"id": jeditaskid}).mappings()]
        if not rows:
            raise NotThere(f"task {jeditaskid} has no jobs yet", "the job tables", "export it when it has")
        ordered = sorted(rows, key=lambda row: int(row["pandaid"]))
        jobs = [(row, sss_rows.properties(connection, "job", int(row["pandaid"]))) for row in ordered]
        return from_panda.task_document(dict(task), jobs, instance)
