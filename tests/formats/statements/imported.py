"""Documents brought into a database, and what is in it then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.formats.model.sss.inheritance import whole_jobs
from broker.formats.model.sss.job_columns import map_job
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.task_columns import map_task
from broker.formats.statements.sss_exchange import Imported, import_document
from broker.store.connection.database import Database

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def bring(database: Database, read: Document, **options: Any) -> Imported:
    wholes = whole_jobs(read)
    mapped = [map_job(one) for one in wholes]
    jobs = list(zip(wholes, mapped, strict=True))
    return import_document(database, map_task(read, mapped), jobs, NOW, group=read.group, **options)


def rows(database: Database, statement: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]
