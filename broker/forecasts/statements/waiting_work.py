"""Waiting work and recent starts, counted in the database: the input of forecasts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.forecasts.model.subjects import Line, Waiting, WaitingTask
from broker.store.connection.tables import TableCatalogue

#: Kinds of tasks are those of tasks created within this time.
KINDS_OF = timedelta(days=7)
TASKS_THAT_WAIT = "'defined', 'assigning', 'ready', 'pending', 'scouting', 'running', 'throttled'"
_TASK = ("jeditaskid", "status", "gshare", "resource_type", "creationdate", "currentpriority")
_STARTED = ("computingsite", "gshare", "starttime", "creationtime")
_JOB = ("pandaid", "jeditaskid", "computingsite", "gshare", "currentpriority", "jobstatus", "creationtime")
#: Jobs that wait at a queue: for their input, for a pilot, or for its start.
_WAITING = """
    (SELECT pandaid, jeditaskid, computingsite, gshare, currentpriority, creationtime FROM {defined} AS d
     UNION ALL
     SELECT pandaid, jeditaskid, computingsite, gshare, currentpriority, creationtime FROM {active} AS a
     WHERE jobstatus IN ('activated', 'throttled', 'sent', 'starting'))"""
_QUEUES = """
    SELECT panda_queue AS queue, coalesce(CAST(data AS jsonb) ->> 'status', '') AS status FROM {queues} AS q
    WHERE panda_queue IS NOT NULL ORDER BY 1"""
_WAITING_LINES = """
    SELECT computingsite AS queue, coalesce(gshare, '') AS gshare, count(*) AS jobs, min(creationtime) AS oldest
    FROM {waiting} AS w WHERE computingsite IS NOT NULL GROUP BY 1, 2"""
_STARTED_LINES = """
    SELECT computingsite AS queue, coalesce(gshare, '') AS gshare, count(*) AS jobs,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM starttime - creationtime)) AS waited_s
    FROM (
        SELECT computingsite, gshare, starttime, creationtime FROM {starts} AS a
        WHERE starttime >= :since AND starttime <= :now
        UNION ALL
        SELECT computingsite, gshare, starttime, creationtime FROM {archived} AS a
        WHERE modificationtime >= :since AND starttime >= :since AND starttime <= :now) AS jobs
    WHERE computingsite IS NOT NULL GROUP BY 1, 2"""
# Jobs that wait at queues, and files without a job yet, which make about as many jobs.
_BACKLOG = """
    SELECT gshare, priority, sum(jobs) FROM (
        SELECT coalesce(gshare, '') AS gshare, coalesce(currentpriority, 0) AS priority, 1 AS jobs FROM {waiting} AS w
        UNION ALL
        SELECT coalesce(t.gshare, ''), coalesce(t.currentpriority, 0), s.nfilestobeused - s.nfilesused
        FROM {tasks} AS t JOIN {datasets} AS s ON s.jeditaskid = t.jeditaskid
        WHERE t.status IN (TASKS_THAT_WAIT) AND s.masterid IS NULL AND s.nfilestobeused > s.nfilesused) AS work
    GROUP BY 1, 2 ORDER BY 1, 2"""
_PLACES = """
    SELECT queue, gshare, jeditaskid, min(place) AS place FROM (
        SELECT computingsite AS queue, coalesce(gshare, '') AS gshare, jeditaskid,
            row_number() OVER (PARTITION BY computingsite, gshare ORDER BY currentpriority DESC NULLS LAST, pandaid)
                AS place
        FROM {waiting} AS w WHERE computingsite IS NOT NULL) AS places
    WHERE jeditaskid = ANY(:tasks) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
_TASKS = """
    SELECT t.jeditaskid, coalesce(t.gshare, '') AS gshare, coalesce(t.resource_type, '') AS resource_type,
        coalesce(t.currentpriority, 0) AS priority, t.creationdate
    FROM {tasks} AS t
    WHERE t.status IN (TASKS_THAT_WAIT)
      AND (EXISTS (SELECT FROM {datasets} AS s WHERE s.jeditaskid = t.jeditaskid AND s.masterid IS NULL
                   AND s.nfilestobeused > s.nfilesused)
           OR EXISTS (SELECT FROM {defined} AS d WHERE d.jeditaskid = t.jeditaskid)
           OR EXISTS (SELECT FROM {active} AS a WHERE a.jeditaskid = t.jeditaskid AND a.jobstatus = 'activated'))
      AND NOT EXISTS (SELECT FROM {active} AS a WHERE a.jeditaskid = t.jeditaskid AND a.jobstatus = 'running')
    ORDER BY t.creationdate DESC NULLS LAST, t.jeditaskid DESC LIMIT :most"""
_KINDS = """
    SELECT coalesce(gshare, '') AS gshare, coalesce(resource_type, '') AS resource_type FROM {tasks} AS t
    WHERE creationdate >= :since GROUP BY 1, 2 ORDER BY 1, 2"""


def read_waiting(
    connection: sa.Connection, catalogue: TableCatalogue, now: datetime, window: timedelta, most_tasks: int
) -> Waiting:
    """What waits at ``now`` (aware), and what started within ``window`` before.

    Args:
        connection: to the database.
        catalogue: its tables.
        now: aware.
        window: of starts.
        most_tasks: how many tasks are read, newest first.
    """
    tables = _tables(catalogue)
    task_rows = connection.execute(_sql(_TASKS, tables), {"most": most_tasks}).all()
    numbers = [int(row.jeditaskid) for row in task_rows]
    places: dict[tuple[int, str], dict[str, int]] = {}
    for queue, share, task, place in connection.execute(_sql(_PLACES, tables), {"tasks": numbers}):
        places.setdefault((int(task), share), {})[queue] = int(place)
    backlog: dict[str, list[tuple[float, int]]] = {}
    for share, priority, jobs in connection.execute(_sql(_BACKLOG, tables)):
        backlog.setdefault(share, []).append((float(priority), int(jobs)))
    kinds = connection.execute(_sql(_KINDS, tables), {"since": naive(now - KINDS_OF)})
    return Waiting(
        {row.queue: row.status for row in connection.execute(_sql(_QUEUES, tables))},
        _lines(connection, tables, now, window),
        backlog,
        tuple(_task(row, places) for row in task_rows),
        tuple((row.gshare, row.resource_type) for row in kinds),
    )


def _lines(
    connection: sa.Connection, tables: Mapping[str, str], now: datetime, window: timedelta
) -> dict[tuple[str, str], Line]:
    """The lines of queues and shares in which jobs wait, or from which some started recently."""
    lines: dict[tuple[str, str], Line] = {}
    arguments = {"since": naive(now - window), "now": naive(now)}
    for row in connection.execute(_sql(_STARTED_LINES, tables), arguments):
        waited_s = math.nan if row.waited_s is None else max(0.0, float(row.waited_s))
        lines[row.queue, row.gshare] = Line(started=int(row.jobs), waited_s=waited_s)
    for row in connection.execute(_sql(_WAITING_LINES, tables)):
        line = lines.get((row.queue, row.gshare), Line())
        oldest_s = 0.0 if row.oldest is None else max(0.0, (naive(now) - row.oldest).total_seconds())
        lines[row.queue, row.gshare] = replace(line, waiting=int(row.jobs), oldest_s=oldest_s)
    return lines


def _sql(query: str, tables: Mapping[str, str]) -> sa.TextClause:
    return sa.text(query.replace("TASKS_THAT_WAIT", TASKS_THAT_WAIT).format(**tables))


def _task(row: Any, places: Mapping[tuple[int, str], Mapping[str, int]]) -> WaitingTask:
    number = int(row.jeditaskid)
    created = None if row.creationdate is None else row.creationdate.replace(tzinfo=UTC)
    lines = places.get((number, row.gshare), {})
    return WaitingTask(number, row.gshare, row.resource_type, float(row.priority), created, lines)


def _tables(catalogue: TableCatalogue) -> dict[str, str]:
    tables = {
        "defined": catalogue.source("jobsdefined4", _JOB),
        "active": catalogue.source("jobsactive4", _JOB),
        "starts": catalogue.source("jobsactive4", _STARTED),
        "archived": catalogue.source("jobsarchived4", (*_STARTED, "modificationtime")),
        "queues": catalogue.source("schedconfig_json", ("panda_queue", "data")),
        "datasets": catalogue.source("jedi_datasets", ("jeditaskid", "masterid", "nfilestobeused", "nfilesused")),
        "tasks": catalogue.source("jedi_tasks", _TASK),
    }
    return tables | {"waiting": _WAITING.format(**tables)}
