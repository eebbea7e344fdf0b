"""What the classes of queues are made from: waits of sample jobs, merge jobs that wait now, slots that got a job.

Source: PanDA analysis brokerage, site class.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.arrays import floats, texts
from broker.domain.classification import QueuedSamples, SlotStarts, WaitSamples
from broker.store.connection.tables import TableCatalogue

#: Jobs that were touched in this time are samples.
SAMPLES_OF = timedelta(days=4)
#: Whose jobs test queues all the time.
TEST_USER = "gangarbt"

_OF_USERS = "prodsourcelabel = 'user' AND gshare = 'User Analysis'"
_JOB_COLUMNS = (
    "pandaid", "computingsite", "gshare", "produsername", "prodsourcelabel", "processingtype", "jobstatus",
    "corecount", "creationtime", "modificationtime", "starttime",
)  # fmt: skip
_LOG_COLUMNS = ("pandaid", "jobstatus", "modificationtime")

# A job that is just being moved is in both tables.
_READ_WAITS_OF_STARTED_JOBS = f"""
WITH jobs AS MATERIALIZED (
    SELECT DISTINCT ON (pandaid) pandaid, computingsite FROM (
        SELECT * FROM {{active}} AS a WHERE jobstatus IN (
            'running', 'holding', 'merging', 'transferring', 'finished', 'failed', 'closed', 'cancelled')
        UNION ALL SELECT * FROM {{archived}} AS f
    ) AS both_tables
    WHERE {_OF_USERS} AND (processingtype = 'pmerge' OR produsername = :tester)
      AND modificationtime > :since AND computingsite IS NOT NULL
    ORDER BY pandaid
), changes AS (
    SELECT pandaid,
           min(modificationtime) FILTER (WHERE jobstatus = 'activated') AS activated,
           min(modificationtime) FILTER (WHERE jobstatus = 'running') AS running
    FROM {{log}} AS l JOIN jobs USING (pandaid)
    WHERE jobstatus IN ('activated', 'running') AND modificationtime <= :now
    GROUP BY pandaid
)
SELECT computingsite, extract(epoch FROM running - activated)::float8,
       extract(epoch FROM CAST(:now AS timestamp) - running)::float8
FROM jobs JOIN changes USING (pandaid)
WHERE running >= activated
ORDER BY computingsite, pandaid
"""  # noqa: S608 - constants
_READ_WAITS_OF_QUEUED_JOBS = f"""
SELECT computingsite, jobstatus, extract(epoch FROM CAST(:now AS timestamp) - creationtime)::float8
FROM {{active}} AS a
WHERE {_OF_USERS} AND processingtype = 'pmerge' AND jobstatus IN ('activated', 'sent', 'starting')
  AND creationtime IS NOT NULL AND computingsite IS NOT NULL
ORDER BY computingsite, pandaid
"""  # noqa: S608 - constants
_COUNT_STARTED_CORES = """
SELECT computingsite, sum(greatest(coalesce(corecount, 1), 1))::float8 FROM (
    SELECT DISTINCT ON (pandaid) pandaid, computingsite, corecount FROM (
        SELECT * FROM {active} AS a UNION ALL SELECT * FROM {archived} AS f) AS both_tables
    WHERE jobstatus IN ('running', 'holding', 'transferring', 'finished', 'cancelled')
      AND starttime >= :since AND starttime < :until AND computingsite IS NOT NULL
    ORDER BY pandaid
) AS started
GROUP BY computingsite ORDER BY computingsite
"""


def read_queue_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """Rows of ``schedconfig_json`` by name, their documents as text."""
    source = catalogue.source("schedconfig_json", ("panda_queue", "data"))
    query = f"SELECT panda_queue, data::text AS data FROM {source} AS q ORDER BY 1"  # noqa: S608 - quoted names
    return [dict(row._mapping) for row in connection.execute(sa.text(query))]


def read_wait_samples(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> WaitSamples:
    """Sample jobs of which the status log tells when they were first activated and first ran."""
    active, archived = (catalogue.source(table, _JOB_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    log = catalogue.source("jobs_statuslog", _LOG_COLUMNS)
    query = sa.text(_READ_WAITS_OF_STARTED_JOBS.format(active=active, archived=archived, log=log))
    values = {"now": naive(now), "since": naive(now - SAMPLES_OF), "tester": TEST_USER}
    rows = connection.execute(query, values).all()
    return WaitSamples(texts(row[0] for row in rows), floats(row[1] for row in rows), floats(row[2] for row in rows))


def read_queued_samples(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> QueuedSamples:
    """Merge analysis jobs that wait at a queue now."""
    query = sa.text(_READ_WAITS_OF_QUEUED_JOBS.format(active=catalogue.source("jobsactive4", _JOB_COLUMNS)))
    rows = connection.execute(query, {"now": naive(now)}).all()
    return QueuedSamples(texts(row[0] for row in rows), texts(row[1] for row in rows), floats(row[2] for row in rows))


def read_starts(connection: sa.Connection, catalogue: TableCatalogue, window: tuple[datetime, datetime]) -> SlotStarts:
    """Slots whose jobs started from the first instant up to the second, of whatever share; NULL cores are one."""
    since, until = window
    active, archived = (catalogue.source(table, _JOB_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    query = sa.text(_COUNT_STARTED_CORES.format(active=active, archived=archived))
    rows = connection.execute(query, {"since": naive(since), "until": naive(until)}).all()
    return SlotStarts({row[0]: row[1] for row in rows}, (until - since).total_seconds() / 3600.0)


def naive(moment: datetime) -> datetime:
    """As PanDA's tables have it: UTC without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)
