"""What the classes of users' tasks are made from: users' jobs by queue, classes of queues, tasks and their progress.

Source: PanDA analysis brokerage, user evaluation and task class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.classification import SITE_METRIC, TaskProgress, UserJobs
from broker.store.classes.queue_waits import TEST_USER, naive
from broker.store.connection.tables import TableCatalogue

#: Tasks that nobody touched for longer are not evaluated.
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
    """Jobs and slots of each user at each queue in these shares, without merge and test jobs; NULL cores are one."""
    query = sa.text(_COUNT_JOBS_OF_USERS.format(active=catalogue.source("jobsactive4", _JOB_COLUMNS)))
    rows = connection.execute(query, {"shares": list(shares), "tester": TEST_USER})
    return [UserJobs(row[0], row[1], *(float(value) for value in row[2:])) for row in rows]


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
    """Tasks of users that are under way, by number.

    Args:
        connection: of the caller's read-only transaction.
        catalogue: the tables that the database has.
        now: the instant.
        only: these tasks; None for all.
    """
    columns = ("jeditaskid", "username", "gshare", "tasktype", "prodsourcelabel", "status", "modificationtime")
    datasets = ("jeditaskid", "type", "masterid", "nfiles", "nfilesfinished", "nfilesfailed")
    query = _READ_TASKS_OF_USERS.format(
        tasks=catalogue.source("jedi_tasks", columns), datasets=catalogue.source("jedi_datasets", datasets)
    )
    values = {"since": naive(now - TASKS_OF), "tester": TEST_USER, "ids": None if only is None else list(only)}
    return [TaskProgress(*row) for row in connection.execute(sa.text(query), values)]


def count_jobs(connection: sa.Connection, catalogue: TableCatalogue, tasks: Iterable[int]) -> dict[int, int]:
    """How many jobs these tasks had for the files of their input."""
    query = _COUNT_JOBS_OF_TASKS.format(
        datasets=catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "type", "masterid")),
        contents=catalogue.source("jedi_dataset_contents", ("jeditaskid", "datasetid", "pandaid")),
    )
    return {row[0]: row[1] for row in connection.execute(sa.text(query), {"ids": sorted(tasks)})}
