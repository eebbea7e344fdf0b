"""A job, wherever it is among PanDA's tables of jobs, and what is on record of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

TABLES = ("jobsdefined4", "jobsactive4", "jobsarchived4")
_COLUMNS = (
    "pandaid",
    "jeditaskid",
    "jobstatus",
    "computingsite",
    "gshare",
    "currentpriority",
    "corecount",
    "minramcount",
    "resource_type",
    "creationtime",
    "modificationtime",
    "starttime",
    "endtime",
)
_LOG_COLUMNS = ("pandaid", "modificationtime", "jobstatus", "computingsite")
_READ_ACTIONS = sa.text("""
    SELECT acted_at, action, rule, queue, old_status, new_status, value_s, limit_s FROM broker.job_actions
    WHERE pandaid = :pandaid ORDER BY acted_at, id""")


def read_job(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> dict[str, Any] | None:
    """The row of a job with the ``table`` that it is in, its times aware; None if it is in none of them."""
    for table in TABLES:
        source = catalogue.source(table, _COLUMNS)
        query = sa.text(f"SELECT {', '.join(_COLUMNS)} FROM {source} AS j WHERE pandaid = :pandaid")  # noqa: S608
        row = connection.execute(query, {"pandaid": pandaid}).first()
        if row is not None:
            return {"table": table, **aware(row._mapping)}
    return None


def read_statuses(connection: sa.Connection, catalogue: TableCatalogue, pandaid: int) -> list[dict[str, Any]]:
    """The states that a job went through, oldest first."""
    source = catalogue.source("jobs_statuslog", _LOG_COLUMNS)
    query = sa.text(
        f"SELECT modificationtime, jobstatus, computingsite FROM {source} AS l "  # noqa: S608 - quoted names
        "WHERE pandaid = :pandaid AND modificationtime IS NOT NULL ORDER BY 1"
    )
    return [aware(row._mapping) for row in connection.execute(query, {"pandaid": pandaid})]


def read_actions(connection: sa.Connection, pandaid: int) -> list[dict[str, Any]]:
    """What timeouts and rebrokerage did to a job, oldest first."""
    return [dict(row._mapping) for row in connection.execute(_READ_ACTIONS, {"pandaid": pandaid})]


def aware(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The row with its instants in UTC, which PanDA's columns hold without a zone."""
    return {
        name: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
        for name, value in row.items()
    }
