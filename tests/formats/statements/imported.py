"""Imports documents into a database and reads its rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.formats.model.sss.inheritance import whole_jobs
from broker.formats.model.sss.job_columns import map_job
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.task_columns import map_task
from broker.formats.statements.sss_exchange import ImportResult, import_document
from broker.store.connection.database import Database

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def import_into(database: Database, document: Document, **options: Any) -> ImportResult:
    wholes = whole_jobs(document)
    mapped_jobs = [map_job(whole) for whole in wholes]
    jobs = list(zip(wholes, mapped_jobs, strict=True))
    return import_document(database, map_task(document, mapped_jobs), jobs, NOW, group=document.group, **options)


def rows(database: Database, statement: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]
