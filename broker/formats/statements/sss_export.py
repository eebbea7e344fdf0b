"""Jobs and tasks of PanDA's tables as SSS Job Objects."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from broker.errors import Refused
from broker.formats.model.sss import exported
from broker.formats.model.sss.exported import Naming, Record
from broker.formats.model.sss.xml_reading import Element
from broker.formats.statements import sss_rows
from broker.formats.statements.sss_import import JOB_TABLES, find_job
from broker.store.connection.database import Database


class NotThere(Refused):
    """No such job or task."""


def export_job(database: Database, pandaid: int, naming: Naming | None = None) -> Element:
    """A job as a document; of one that was imported and became several, the whole.

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
            found = sa.text(f"SELECT * FROM {names.table(table)} WHERE jeditaskid = :id")  # noqa: S608 - as above
            rows += [dict(row) for row in connection.execute(found, {"id": jeditaskid}).mappings()]
        if not rows:
            raise NotThere(f"task {jeditaskid} has no jobs yet", "the job tables", "export it when it has")
        rows.sort(key=lambda row: int(row["pandaid"]))
        records = sss_rows.records(connection, "job", [int(row["pandaid"]) for row in rows])
        group = sss_rows.records(connection, "task", [jeditaskid]).get(jeditaskid, Record())
    jobs = [(row, records.get(int(row["pandaid"]), Record())) for row in rows]
    return exported.task_export(dict(task), group, jobs, naming or Naming())
