"""Imports SSS Job Objects into PanDA's tables as jobs and tasks, each document in one transaction, and exports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.errors import Refused
from broker.formats.model.sss import exported, from_panda
from broker.formats.model.sss.exported import Naming, Record
from broker.formats.model.sss.from_panda import rows_of, with_task_group, without_jobs
from broker.formats.model.sss.inheritance import WholeJob
from broker.formats.model.sss.job_columns import MappedJob
from broker.formats.model.sss.model import JobLevel
from broker.formats.model.sss.task_columns import MappedTask
from broker.formats.model.sss.xml_reading import Element
from broker.formats.statements import sss_rows
from broker.formats.statements.sss_rows import Identity, ImportedRows
from broker.formats.statements.task_numbers import next_task_id
from broker.store.connection.database import Database
from broker.store.connection.tables import Names, TableCatalogue, quoted
from broker.store.schema import migrate

JOB_TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
_TABLE_OF = {
    **dict.fromkeys(("pending", "defined", "waiting", "assigned", "throttled"), "jobsdefined4"),
    **dict.fromkeys(("finished", "failed", "cancelled", "closed"), "jobsarchived4"),
}


class NotOurTables(Refused):
    """Alongside PanDA, jobs and tasks come from PanDA's own interfaces."""


class AlreadyThere(Refused):
    """A job or task with this id exists already."""


@dataclass(frozen=True)
class ImportedJob:
    """An imported job: its new id, the one it came with, and what had no column."""

    pandaid: int
    job_id: str
    table: str
    unmapped: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ImportResult:
    """What an import wrote; ``jeditaskid`` is ``None`` for a document of a single job without a task."""

    jeditaskid: int | None
    jobs: tuple[ImportedJob, ...]
    unmapped: tuple[str, ...] = ()


def check_standalone(database: Database) -> None:
    """Refuse to write where the tables belong to a PanDA installation.

    Raises:
        NotOurTables: they do.
    """
    if migrate.check(database) != migrate.STANDALONE:
        raise NotOurTables(
            "the job and task tables belong to a PanDA installation", repr(database), "submit to PanDA instead"
        )


def insert_row(connection: sa.Connection, names: Names, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Insert one row into one of PanDA's tables; returns it as stored, with the defaults of its columns."""
    columns = ", ".join(quoted(column) for column in row)
    values = ", ".join(f":{column}" for column in row)
    statement = f"INSERT INTO {names.table(table)} ({columns}) VALUES ({values}) RETURNING *"  # noqa: S608 - quoted names
    return dict(connection.execute(sa.text(statement), dict(row)).mappings().one())


def import_document(
    database: Database,
    task: MappedTask | None,
    jobs: Sequence[tuple[WholeJob, MappedJob]],
    now: datetime,
    *,
    group: JobLevel | None = None,
    same_instance: bool = False,
) -> ImportResult:
    """Write a document: a row for the group, one for each job (or each of its task groups), and all of it as it came.

    Args:
        database: standalone, with the current schema.
        task: the group, ``None`` for a single job.
        jobs: its jobs.
        now: time of the import (aware).
        group: the group as it is in the document, ``None`` for a single job.
        same_instance: the document is our own export, so that jobs have the ids that they name.

    Raises:
        NotOurTables: alongside PanDA.
        AlreadyThere: a job of our own export exists.
        Refused: a job or the group cannot be a row; nothing was written.
    """
    check_standalone(database)
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        task_id = None if task is None else _add_task(connection, catalogue, task, group, naive(now))
        target = _Target(catalogue, task, task_id, naive(now), same_instance)
        written = [imported for whole, mapped in jobs for imported in _add_job(connection, target, whole, mapped)]
    return ImportResult(task_id, tuple(written), () if task is None else task.unmapped)


@dataclass(frozen=True)
class _Target:
    """Where the jobs of a document go: their task, if any, the time of the import, and whether they keep their ids."""

    catalogue: TableCatalogue
    task: MappedTask | None
    task_id: int | None
    stamp: datetime
    same_instance: bool


def _add_task(
    connection: sa.Connection, catalogue: TableCatalogue, task: MappedTask, group: JobLevel | None, stamp: datetime
) -> int:
    if task.columns is None:
        raise Refused(f"the group cannot be a task: {task.refused}", task.group_id, "; ".join(task.notes))
    task_id = next_task_id(connection, catalogue.names)
    values = {"modificationtime": stamp, **_row(catalogue, "jedi_tasks", task.columns), "jeditaskid": task_id}
    row = insert_row(connection, catalogue.names, "jedi_tasks", values)
    written = ImportedRows(rows_of(from_panda.task_element(row)))
    sss_rows.add_identity(connection, "task", task_id, Identity("", task.group_id), written)
    if group is not None and group.source is not None:
        sss_rows.add_properties(connection, "task", task_id, rows_of(without_jobs(group.source)))
    return task_id


def _add_job(connection: sa.Connection, target: _Target, whole: WholeJob, mapped: MappedJob) -> list[ImportedJob]:
    """Add the rows of one job of the document: one, or one for each of its task groups."""
    source = whole.own.source if whole.own is not None else None
    if not mapped.parts:
        return [_add_row(connection, target, whole, mapped, source)]
    added: list[ImportedJob] = []
    for number, part in enumerate(mapped.parts):
        own = None if source is None else with_task_group(source, number)
        first = added[0].pandaid if added else None
        added.append(_add_row(connection, target, whole, part, own, first_part=first, is_part=True))
    return [replace(job, unmapped=mapped.unmapped, notes=mapped.notes) for job in added]


def _add_row(
    connection: sa.Connection,
    target: _Target,
    whole: WholeJob,
    mapped: MappedJob,
    source: Element | None,
    *,
    first_part: int | None = None,
    is_part: bool = False,
) -> ImportedJob:
    if mapped.columns is None:
        raise Refused(f"the job cannot be one of PanDA's: {mapped.refused}", mapped.job_id, "; ".join(mapped.notes))
    names = target.catalogue.names
    table = _TABLE_OF.get(str(mapped.columns["jobStatus"]), "jobsactive4")
    # our own export of such a job names only its first part
    pandaid = _job_id(connection, names, mapped, target.same_instance and first_part is None)
    values = _row(target.catalogue, table, mapped.columns)
    values |= {"pandaid": pandaid, "modificationtime": target.stamp, "statechangetime": target.stamp}
    if "currentpriority" in values:
        values["assignedpriority"] = values["currentpriority"]
    if target.task_id is not None:
        values["jeditaskid"] = target.task_id
    elif not target.same_instance:
        values.pop("jeditaskid", None)
    row = insert_row(connection, names, table, values)
    group_id = None if target.task is None else target.task.group_id
    identity = Identity(mapped.job_id, group_id, whole.job.text("GlobalJobId"))
    first = (first_part or pandaid) if is_part else None
    written = ImportedRows(rows_of(from_panda.job_element(row)), first)
    sss_rows.add_identity(connection, "job", pandaid, identity, written)
    if source is not None:
        sss_rows.add_properties(connection, "job", pandaid, rows_of(source))
    return ImportedJob(pandaid, mapped.job_id, table, mapped.unmapped, mapped.notes)


def _job_id(connection: sa.Connection, names: Names, mapped: MappedJob, same_instance: bool) -> int:
    requested_id = (mapped.columns or {}).get("PandaID")
    sequence = f"{quoted(names.panda)}.{quoted('jobsdefined4_pandaid_seq')}"
    if not same_instance or not isinstance(requested_id, int):
        return int(connection.scalar(sa.text("SELECT nextval(:name)"), {"name": sequence}) or 0)
    if find_job(connection, names, requested_id) is not None:
        raise AlreadyThere(
            f"job {requested_id} is there", "the job tables", "import it without --same-instance for a copy"
        )
    statement = f"SELECT setval(:name, greatest(:id, (SELECT last_value FROM {sequence})))"  # noqa: S608 - quoted names
    connection.execute(sa.text(statement), {"name": sequence, "id": requested_id})
    return requested_id


def _row(catalogue: TableCatalogue, table: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that the table has, by their names there; times become datetimes."""
    present = catalogue.columns_present(table)
    named = {name.lower(): value for name, value in columns.items() if name != "PandaID"}
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


class NotThere(Refused):
    """No such job or task."""


def export_job(database: Database, pandaid: int, naming: Naming | None = None) -> Element:
    """A job as a document; if an imported job became several, the whole of it.

    Raises:
        NotThere: there is no such job.
    """
    with database.read_snapshot() as connection:
        numbers = sss_rows.parts(connection, pandaid)
        rows = [row for number in numbers if (row := find_job(connection, database.names, number)) is not None]
        if not rows:
            raise NotThere(f"there is no job {pandaid}", "the job tables", "name a pandaid that is there")
        records = sss_rows.records(connection, "job", numbers)
        task = rows[0].get("jeditaskid")
        group = Record() if task is None else sss_rows.records(connection, "task", [int(task)]).get(int(task), Record())
    jobs = [(row, records.get(int(row["pandaid"]), Record())) for row in rows]
    return exported.job_export(jobs, group, naming or Naming())


def export_task(database: Database, jeditaskid: int, naming: Naming | None = None) -> Element:
    """A task with its jobs as a document.

    Raises:
        NotThere: there is no such task, or it has no jobs.
    """
    names = database.names
    with database.read_snapshot() as connection:
        statement = sa.text(f"SELECT * FROM {names.table('jedi_tasks')} WHERE jeditaskid = :id")  # noqa: S608 - quoted names
        task = connection.execute(statement, {"id": jeditaskid}).mappings().first()
        if task is None:
            raise NotThere(f"there is no task {jeditaskid}", "jedi_tasks", "name a jeditaskid that is there")
        rows: list[dict[str, Any]] = []
        for table in JOB_TABLES:
            query = sa.text(f"SELECT * FROM {names.table(table)} WHERE jeditaskid = :id")  # noqa: S608 - as above
            rows += [dict(row) for row in connection.execute(query, {"id": jeditaskid}).mappings()]
        if not rows:
            raise NotThere(f"task {jeditaskid} has no jobs yet", "the job tables", "export it when it has")
        rows.sort(key=lambda row: int(row["pandaid"]))
        records = sss_rows.records(connection, "job", [int(row["pandaid"]) for row in rows])
        group = sss_rows.records(connection, "task", [jeditaskid]).get(jeditaskid, Record())
    jobs = [(row, records.get(int(row["pandaid"]), Record())) for row in rows]
    return exported.task_export(dict(task), group, jobs, naming or Naming())
