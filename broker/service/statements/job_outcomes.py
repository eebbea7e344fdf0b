"""How jobs ended at each queue lately, and of how many tasks, from PanDA's archive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

_COLUMNS = ("computingsite", "jeditaskid", "jobstatus", "modificationtime", "endtime")
_COUNT_ENDED_JOBS = """
    SELECT computingsite AS queue,
           count(*) FILTER (WHERE jobstatus = 'failed') AS failed,
           count(*) FILTER (WHERE jobstatus = 'finished') AS finished,
           count(DISTINCT jeditaskid) FILTER (WHERE jobstatus = 'failed') AS tasks_failed,
           count(DISTINCT jeditaskid) AS tasks,
           min(coalesce(endtime, modificationtime)) FILTER (WHERE jobstatus = 'failed') AS first_failed
    FROM {archive} AS j
    WHERE jobstatus IN ('failed', 'finished') AND modificationtime > :since AND modificationtime <= :until
      AND computingsite IS NOT NULL
    GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True)
class EndedJobs:
    """Jobs that ended at a queue: how many failed and finished, and of how many tasks."""

    queue: str
    failed: int
    finished: int
    tasks_failed: int
    tasks: int
    first_failed: datetime | None


def ended_jobs(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[EndedJobs]:
    """The jobs that ended between two instants (aware), by queue. Columns of PanDA hold UTC without a zone."""
    query = sa.text(_COUNT_ENDED_JOBS.format(archive=catalogue.source("jobsarchived4", _COLUMNS)))
    values = {"since": since.astimezone(UTC).replace(tzinfo=None), "until": until.astimezone(UTC).replace(tzinfo=None)}
    return [_row(row) for row in connection.execute(query, values)]


def _row(row: sa.Row[tuple[object, ...]]) -> EndedJobs:
    found = dict(row._mapping)
    first = found["first_failed"]
    return EndedJobs(**{**found, "first_failed": None if first is None else first.replace(tzinfo=UTC)})
