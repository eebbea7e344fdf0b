"""How many jobs started in each hour: counted anew while the hour goes on, and once more in the next."""

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
    """Keep how many jobs started in this hour and the one before; those of this hour.

    A job that ended is looked for among those that changed since: one that started and moved to the archive of past
    days meanwhile was counted while it was here.
    """
    this = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    tables = {
        "active": catalogue.source("jobsactive4", ("starttime",)),
        "archived": catalogue.source("jobsarchived4", ("starttime", "modificationtime")),
    }
    given = {"since": naive(this - HOUR), "now": naive(now)}
    counted = connection.execute(sa.text(_COUNT.format(**tables)), given)
    started = {row[0].replace(tzinfo=UTC): int(row[1]) for row in counted}
    connection.execute(_WRITE, [{"hour": at, "started": started.get(at, 0)} for at in (this - HOUR, this)])
    return started.get(this, 0)
