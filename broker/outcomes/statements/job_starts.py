"""The number of jobs started in each hour: recounted during the hour, and once more in the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import TableCatalogue

HOUR = timedelta(hours=1)
_COUNT = """
    SELECT date_trunc('hour', starttime) AS hour, count(*) FROM (
        SELECT starttime FROM {active} AS a WHERE starttime >= :since AND starttime <= :now
        UNION ALL
        SELECT starttime FROM {archived} AS a
        WHERE modificationtime >= :since AND starttime >= :since AND starttime <= :now) AS jobs
    GROUP BY 1"""
_WRITE = sa.text("""
    INSERT INTO broker.job_starts (hour, started) VALUES (:hour, :started)
    ON CONFLICT (hour) DO UPDATE SET started = greatest(job_starts.started, excluded.started)""")


def note_starts(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> int:
    """Store the number of jobs started in this hour and the previous one; return that of this hour.

    Ended jobs are searched among those changed since then: a job that started and has moved to the archive of past days
    was counted while it was here.
    """
    this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    tables = {
        "active": catalogue.source("jobsactive4", ("starttime",)),
        "archived": catalogue.source("jobsarchived4", ("starttime", "modificationtime")),
    }
    parameters = {"since": naive(this_hour - HOUR), "now": naive(now)}
    rows = connection.execute(sa.text(_COUNT.format(**tables)), parameters)
    started = {row[0].replace(tzinfo=UTC): int(row[1]) for row in rows}
    connection.execute(
        _WRITE, [{"hour": hour, "started": started.get(hour, 0)} for hour in (this_hour - HOUR, this_hour)]
    )
    return started.get(this_hour, 0)
