"""The job or task by which a forecast is judged, and whether it has started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import aware, naive
from broker.forecasts.model.resolving import OpenForecast, TrackedWork
from broker.forecasts.model.subjects import apart
from broker.store.connection.tables import TableCatalogue

_NUMBER = ("pandaid", "computingsite", "gshare", "creationtime", "modificationtime")
_JOB = ("pandaid", "jeditaskid", "creationtime", "starttime", "jobstatus", "modificationtime")
_TASK = ("jeditaskid", "status", "gshare", "resource_type", "creationdate")
# Jobs that came since then are read once, whatever the number of queues.
_FIRST_JOBS = """
    WITH came AS MATERIALIZED (
        SELECT computingsite, gshare, pandaid, creationtime FROM {defined} AS d WHERE creationtime >= :since
        UNION ALL SELECT computingsite, gshare, pandaid, creationtime FROM {active} AS a WHERE creationtime >= :since
        UNION ALL SELECT computingsite, gshare, pandaid, creationtime FROM {archived} AS a
        WHERE modificationtime >= :since AND creationtime >= :since)
    SELECT DISTINCT ON (one.id) one.id, came.pandaid
    FROM unnest(CAST(:ids AS bigint[]), CAST(:queues AS text[]), CAST(:shares AS text[]), CAST(:made AS timestamp[]))
        AS one (id, queue, share, made)
    JOIN came ON came.computingsite = one.queue AND coalesce(came.gshare, '') = one.share
        AND came.creationtime >= one.made
    ORDER BY one.id, came.creationtime, came.pandaid"""
_FIRST_TASKS = """
    SELECT DISTINCT ON (one.id) one.id, t.jeditaskid
    FROM unnest(CAST(:ids AS bigint[]), CAST(:shares AS text[]), CAST(:types AS text[]), CAST(:made AS timestamp[]))
        AS one (id, share, type, made)
    JOIN (SELECT * FROM {tasks} AS t WHERE creationdate >= :since) AS t
        ON coalesce(t.gshare, '') = one.share AND coalesce(t.resource_type, '') = one.type
        AND t.creationdate >= one.made
    ORDER BY one.id, t.creationdate, t.jeditaskid"""
_JOBS = """
    SELECT pandaid, creationtime, NULL AS starttime, true AS is_there FROM {defined} AS d WHERE pandaid = ANY(:jobs)
    UNION ALL
    SELECT pandaid, creationtime, starttime, true FROM {active} AS a WHERE pandaid = ANY(:jobs)
    UNION ALL
    SELECT pandaid, creationtime, starttime, false FROM {archived} AS a WHERE pandaid = ANY(:jobs)"""
_TASK_STARTS = """
    SELECT one.id, one.since, (
        SELECT min(starttime) FROM (
            SELECT starttime FROM {active} AS a WHERE a.jeditaskid = one.task AND starttime >= one.since
            UNION ALL
            SELECT starttime FROM {archived} AS a WHERE a.jeditaskid = one.task AND starttime >= one.since) AS s
        ) AS started, t.status, t.creationdate
    FROM unnest(CAST(:ids AS bigint[]), CAST(:tasks AS bigint[]), CAST(:since AS timestamp[])) AS one (id, task, since)
    JOIN {tasks} AS t ON t.jeditaskid = one.task"""
_OVER = frozenset({"done", "finished", "failed", "aborted", "broken", "exhausted", "prepared", "paused"})


def tracked_of(
    connection: sa.Connection, catalogue: TableCatalogue, open_forecasts: Sequence[OpenForecast]
) -> dict[int, int]:
    """The job (of a queue) or task by which each forecast is judged, by forecast id; those without one are left out."""
    known = {one.id: one.tracked for one in open_forecasts if one.tracked is not None}
    known |= {one.id: int(one.subject) for one in open_forecasts if one.kind == "task"}
    queues = [one for one in open_forecasts if one.kind == "queue" and one.tracked is None]
    kinds = [one for one in open_forecasts if one.kind == "task_kind" and one.tracked is None]
    tables = {
        "defined": catalogue.source("jobsdefined4", _NUMBER),
        "active": catalogue.source("jobsactive4", _NUMBER),
        "archived": catalogue.source("jobsarchived4", _NUMBER),
        "tasks": catalogue.source("jedi_tasks", _TASK),
    }
    for forecasts, parts, query in (
        (queues, ("queues", "shares"), _FIRST_JOBS),
        (kinds, ("shares", "types"), _FIRST_TASKS),
    ):
        if forecasts:
            made_at = [naive(one.made_at) for one in forecasts]
            names = zip(*(apart(one.subject) for one in forecasts), strict=True)
            arguments: dict[str, Any] = {"ids": [one.id for one in forecasts], "made": made_at}
            arguments |= {part: list(column) for part, column in zip(parts, names, strict=True)}
            rows = connection.execute(sa.text(query.format(**tables)), arguments | {"since": min(made_at)})
            known |= {int(number): int(tracked) for number, tracked in rows}
    return known


def seen_of(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    open_forecasts: Sequence[OpenForecast],
    tracked: dict[int, int],
) -> dict[int, TrackedWork]:
    """What is known about the job or task by which each forecast is judged, by forecast id."""
    jobs = [one for one in open_forecasts if one.kind == "queue" and one.id in tracked]
    tasks = [one for one in open_forecasts if one.kind != "queue" and one.id in tracked]
    seen: dict[int, TrackedWork] = {}
    if jobs:
        tables = {
            "defined": catalogue.source("jobsdefined4", _JOB),
            "active": catalogue.source("jobsactive4", _JOB),
            "archived": catalogue.source("jobsarchived4", _JOB),
        }
        rows = connection.execute(sa.text(_JOBS.format(**tables)), {"jobs": sorted({tracked[one.id] for one in jobs})})
        by_number = {int(row.pandaid): row for row in rows if row.creationtime is not None}
        for one in jobs:
            row = by_number.get(tracked[one.id])
            if row is not None:
                seen[one.id] = TrackedWork(aware(row.creationtime), _aware_or_none(row.starttime), bool(row.is_there))
    return seen | _of_tasks(connection, catalogue, tasks, tracked)


def _of_tasks(
    connection: sa.Connection, catalogue: TableCatalogue, forecasts: Sequence[OpenForecast], tracked: dict[int, int]
) -> dict[int, TrackedWork]:
    if not forecasts:
        return {}
    tables = {
        "active": catalogue.source("jobsactive4", _JOB),
        "archived": catalogue.source("jobsarchived4", _JOB),
        "tasks": catalogue.source("jedi_tasks", _TASK),
    }
    arguments = {
        "ids": [one.id for one in forecasts],
        "tasks": [tracked[one.id] for one in forecasts],
        "since": [naive(one.made_at) for one in forecasts],
    }
    by_id = {one.id: one for one in forecasts}
    seen = {}
    for row in connection.execute(sa.text(_TASK_STARTS.format(**tables)), arguments):
        one = by_id[row.id]
        is_new = one.kind == "task_kind" and row.creationdate is not None
        began = aware(row.creationdate) if is_new else one.made_at
        seen[one.id] = TrackedWork(began, _aware_or_none(row.started), row.status not in _OVER)
    return seen


def _aware_or_none(moment: Any) -> datetime | None:
    return None if moment is None else aware(moment)
