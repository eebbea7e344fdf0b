"""Reads of what the classes of queues, users' tasks and shares are computed from, in the caller's transaction.

- Queues: waits of sample jobs, currently waiting merge jobs, slots that got a job.
- Users' tasks: users' jobs by queue, classes of queues, tasks and their progress.
- Shares: the tree of shares, and HS06 of running and waiting jobs.

Source: PanDA analysis brokerage, site class, user evaluation, task class and global share usage; PanDA data model,
global_shares and job statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.arrays import floats, texts
from broker.domain.classification import (
    SITE_METRIC,
    JobsAndSlots,
    QueuedSamples,
    ShareCount,
    SlotStarts,
    TaskProgress,
    UserJobs,
    WaitSamples,
)
from broker.domain.instants import naive
from broker.snapshot.source import JobStatistics
from broker.store.connection.database import Database
from broker.store.connection.plain_rows import mappings
from broker.store.connection.tables import TableCatalogue

#: Jobs modified within this time are samples.
SAMPLES_OF = timedelta(days=4)
#: The user whose jobs test queues all the time.
TEST_USER = "gangarbt"

_OF_USERS = "prodsourcelabel = 'user' AND gshare = 'User Analysis'"
_SAMPLE_COLUMNS = (
    "pandaid", "computingsite", "gshare", "produsername", "prodsourcelabel", "processingtype", "jobstatus",
    "corecount", "creationtime", "modificationtime", "starttime",
)  # fmt: skip
_LOG_COLUMNS = ("pandaid", "jobstatus", "modificationtime")

# A job that is being moved is in both tables.
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
    """Rows of ``schedconfig_json`` ordered by name, with their documents as text."""
    source = catalogue.source("schedconfig_json", ("panda_queue", "data"))
    query = f"SELECT panda_queue, data::text AS data FROM {source} AS q ORDER BY 1"  # noqa: S608 - quoted names
    return mappings(connection, sa.text(query))


def read_wait_samples(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> WaitSamples:
    """Sample jobs whose status log has the times when they were first activated and first ran."""
    active, archived = (catalogue.source(table, _SAMPLE_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    log = catalogue.source("jobs_statuslog", _LOG_COLUMNS)
    query = sa.text(_READ_WAITS_OF_STARTED_JOBS.format(active=active, archived=archived, log=log))
    values = {"now": naive(now), "since": naive(now - SAMPLES_OF), "tester": TEST_USER}
    rows = connection.execute(query, values).all()
    return WaitSamples(texts(row[0] for row in rows), floats(row[1] for row in rows), floats(row[2] for row in rows))


def read_queued_samples(connection: sa.Connection, catalogue: TableCatalogue, now: datetime) -> QueuedSamples:
    """Merge jobs of analysis that are currently waiting at a queue."""
    query = sa.text(_READ_WAITS_OF_QUEUED_JOBS.format(active=catalogue.source("jobsactive4", _SAMPLE_COLUMNS)))
    rows = connection.execute(query, {"now": naive(now)}).all()
    return QueuedSamples(texts(row[0] for row in rows), texts(row[1] for row in rows), floats(row[2] for row in rows))


def read_starts(connection: sa.Connection, catalogue: TableCatalogue, window: tuple[datetime, datetime]) -> SlotStarts:
    """Slots whose jobs started between the two instants of the window, in any share; NULL cores count as one."""
    since, until = window
    active, archived = (catalogue.source(table, _SAMPLE_COLUMNS) for table in ("jobsactive4", "jobsarchived4"))
    query = sa.text(_COUNT_STARTED_CORES.format(active=active, archived=archived))
    rows = connection.execute(query, {"since": naive(since), "until": naive(until)}).all()
    return SlotStarts({row[0]: row[1] for row in rows}, (until - since).total_seconds() / 3600.0)


#: Tasks that were not modified for longer are not evaluated.
TASKS_OF = timedelta(days=30)

_JOB_COLUMNS = ("computingsite", "gshare", "produsername", "processingtype", "jobstatus", "corecount")
_QUEUED = "jobstatus IN ('defined', 'assigned', 'activated', 'starting')"
_COUNT_JOBS_OF_USERS = f"""
SELECT produsername, computingsite,
       count(*) FILTER (WHERE {_QUEUED}),
       count(*) FILTER (WHERE jobstatus = 'running'),
       coalesce(sum(greatest(coalesce(corecount, 1), 1)) FILTER (WHERE {_QUEUED}), 0),
       coalesce(sum(greatest(coalesce(corecount, 1), 1)) FILTER (WHERE jobstatus = 'running'), 0)
FROM {{active}} AS a
WHERE gshare = ANY(:shares) AND processingtype IS DISTINCT FROM 'pmerge' AND produsername <> :tester
  AND computingsite IS NOT NULL
GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 - constants
_MASTER = "type IN ('input', 'pseudo_input') AND masterid IS NULL"
_READ_TASKS_OF_USERS = f"""
WITH tasks AS MATERIALIZED (
    SELECT jeditaskid, username, gshare FROM {{tasks}} AS t
    WHERE tasktype = 'anal' AND prodsourcelabel = 'user' AND username IS DISTINCT FROM :tester
      AND status IN ('scouting', 'scouted', 'running', 'pending', 'throttled') AND modificationtime > :since
      AND (CAST(:ids AS bigint[]) IS NULL OR jeditaskid = ANY(CAST(:ids AS bigint[])))
), progress AS (
    SELECT jeditaskid, sum(nfiles) AS files, sum(nfilesfinished) AS finished, sum(nfilesfailed) AS failed
    FROM {{datasets}} AS d JOIN tasks USING (jeditaskid) WHERE {_MASTER} GROUP BY jeditaskid
)
SELECT jeditaskid, coalesce(username, ''), gshare, coalesce(files, 0)::bigint, coalesce(finished, 0)::bigint,
       coalesce(failed, 0)::bigint
FROM tasks LEFT JOIN progress USING (jeditaskid) ORDER BY jeditaskid
"""  # noqa: S608 - constants
_COUNT_JOBS_OF_TASKS = f"""
SELECT c.jeditaskid, count(DISTINCT c.pandaid)
FROM {{datasets}} AS d JOIN {{contents}} AS c ON c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid
WHERE d.jeditaskid = ANY(:ids) AND {_MASTER} GROUP BY 1
"""  # noqa: S608 - constants


def read_user_jobs(connection: sa.Connection, catalogue: TableCatalogue, shares: Sequence[str]) -> list[UserJobs]:
    """Jobs and slots of each user at each queue in the shares, without merge and test jobs; NULL cores count as one."""
    query = sa.text(_COUNT_JOBS_OF_USERS.format(active=catalogue.source("jobsactive4", _JOB_COLUMNS)))
    rows = connection.execute(query, {"shares": list(shares), "tester": TEST_USER})
    return [UserJobs(row[0], row[1], JobsAndSlots(*(float(value) for value in row[2:]))) for row in rows]


def read_site_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """The rows of ``analy_site_eval``, oldest first."""
    columns = ("computingsite", "metric", "value_json", "timestamp")
    query = (
        "SELECT computingsite, value_json::text AS value_json, timestamp "  # noqa: S608 - quoted names
        f"FROM {catalogue.source('metrics', columns)} AS m WHERE metric = :metric "
        "ORDER BY timestamp NULLS FIRST, computingsite"
    )
    return [dict(row._mapping) for row in connection.execute(sa.text(query), {"metric": SITE_METRIC})]


def read_tasks(
    connection: sa.Connection, catalogue: TableCatalogue, now: datetime, only: Iterable[int] | None
) -> list[TaskProgress]:
    """Active tasks of users, ordered by id.

    Args:
        connection: connection of the caller's read-only transaction.
        catalogue: the tables of the database.
        now: the instant.
        only: restrict to these tasks; None for all.
    """
    columns = ("jeditaskid", "username", "gshare", "tasktype", "prodsourcelabel", "status", "modificationtime")
    datasets = ("jeditaskid", "type", "masterid", "nfiles", "nfilesfinished", "nfilesfailed")
    query = _READ_TASKS_OF_USERS.format(
        tasks=catalogue.source("jedi_tasks", columns), datasets=catalogue.source("jedi_datasets", datasets)
    )
    values = {"since": naive(now - TASKS_OF), "tester": TEST_USER, "ids": None if only is None else list(only)}
    return [TaskProgress(*row) for row in connection.execute(sa.text(query), values)]


def count_jobs(connection: sa.Connection, catalogue: TableCatalogue, tasks: Iterable[int]) -> dict[int, int]:
    """The number of jobs that these tasks have had for their input files, by task."""
    query = _COUNT_JOBS_OF_TASKS.format(
        datasets=catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "type", "masterid")),
        contents=catalogue.source("jedi_dataset_contents", ("jeditaskid", "datasetid", "pandaid")),
    )
    return {row[0]: row[1] for row in connection.execute(sa.text(query), {"ids": sorted(tasks)})}


# PanDA's statistics contain HS06; jobs counted live have cores, to be combined with the power of their queue.
_COUNT_JOBS_OF_SHARES = """
SELECT gshare, computingsite,
       sum(greatest(coalesce(corecount, 1), 1)) FILTER (WHERE jobstatus = 'activated')::float8,
       sum(greatest(coalesce(corecount, 1), 1)) FILTER (WHERE jobstatus <> 'activated')::float8
FROM {active} AS a
WHERE jobstatus IN ('running', 'sent', 'activated') AND computingsite IS NOT NULL
GROUP BY 1, 2
"""
_READ_STATISTICS_OF_SHARES = """
SELECT gshare, CAST(NULL AS text), jobstatus IN ('running', 'sent') AS is_running, coalesce(sum(hs), 0)::float8
FROM {statistics} AS s WHERE jobstatus IN ('running', 'sent', 'activated')
GROUP BY 1, 3 ORDER BY 1, 3
"""


def read_share_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """Rows of ``global_shares``, ordered by name."""
    source = catalogue.source("global_shares", ("name", "value", "parent"))
    query = sa.text(f"SELECT name, value, parent FROM {source} AS g ORDER BY name")  # noqa: S608 - quoted names
    return mappings(connection, query)


def read_share_counts(
    connection: sa.Connection, catalogue: TableCatalogue, statistics: JobStatistics
) -> tuple[list[ShareCount], datetime | None]:
    """The counts, and when PanDA's statistics were computed; None if jobs are counted live."""
    if statistics == "live":
        columns = ("gshare", "computingsite", "jobstatus", "corecount")
        query = _COUNT_JOBS_OF_SHARES.format(active=catalogue.source("jobsactive4", columns))
        # one row per share and queue, read without the layers that look up columns by name
        with Database.raw(connection).cursor(binary=True) as cursor:
            rows = cursor.execute(query).fetchall()
        # sorted because sums of floats depend on their order; faster here than in the database
        rows.sort(key=lambda row: (row[0] is None, row[0] or "", row[1]))
        return [
            ShareCount(share, queue, is_running, cores)
            for share, queue, waiting, running in rows
            for is_running, cores in ((False, waiting), (True, running))
            if cores is not None
        ], None
    source = catalogue.source("jobs_share_stats", ("ts", "gshare", "jobstatus", "hs"))
    counts = [
        ShareCount(*row) for row in connection.execute(sa.text(_READ_STATISTICS_OF_SHARES.format(statistics=source)))
    ]
    updated_at = connection.scalar(sa.text(f"SELECT max(ts) FROM {source} AS s"))  # noqa: S608 - quoted names
    return counts, updated_at.replace(tzinfo=UTC) if isinstance(updated_at, datetime) else None
