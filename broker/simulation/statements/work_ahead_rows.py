"""Running, waiting and recently arrived work, counted in PanDA's tables, as the start of a roll-out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.simulation.model.work_of_site import CapRow, EndedRow, JobRow, TaskRow, WorkRows
from broker.store.connection.tables import TableCatalogue

#: Time over which ended jobs count for run times; time over which running cores count, as in decisions.
RECORD = timedelta(days=2)
CAPACITY = timedelta(days=21)
#: Maximum jobs of a task in a roll-out: further ones start no sooner.
MOST_JOBS = 1000
_WAITING_TASKS = "'defined', 'assigning', 'ready', 'pending', 'scouting', 'running', 'throttled'"
_JOB = (
    "pandaid", "jeditaskid", "computingsite", "gshare", "resource_type", "processingtype", "prodsourcelabel",
    "produsername", "corecount", "minramcount", "currentpriority", "jobstatus", "creationtime", "starttime",
)  # fmt: skip
_TASK = (
    "jeditaskid", "status", "gshare", "resource_type", "processingtype", "prodsourcelabel", "username", "corecount",
    "ramcount", "ramunit", "currentpriority", "creationdate",
)  # fmt: skip
_DATASET = ("jeditaskid", "masterid", "nfiles", "nfilestobeused", "nfilesused")
_SHAPE = """
    coalesce(gshare, '') AS gshare, coalesce(resource_type, '') AS resource_type,
    coalesce(processingtype, '') AS processingtype, coalesce(prodsourcelabel, '') AS label"""
_RUNNING = """
    SELECT computingsite AS queue, produsername AS owner, {shape}, 0 AS task, 0.0 AS priority, count(*) AS jobs,
        mode() WITHIN GROUP (ORDER BY greatest(coalesce(corecount, 1), 1)) AS cores, max(minramcount) AS ram_mb,
        array_agg(greatest(0.0, extract(epoch FROM :now - starttime))::double precision ORDER BY pandaid) AS ages_s
    FROM {active} AS a
    WHERE jobstatus IN ('running', 'holding') AND starttime IS NOT NULL AND computingsite IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6"""
_WAITING = """
    SELECT computingsite AS queue, produsername AS owner, {shape}, coalesce(jeditaskid, 0) AS task,
        coalesce(currentpriority, 0)::double precision AS priority, count(*) AS jobs,
        mode() WITHIN GROUP (ORDER BY greatest(coalesce(corecount, 1), 1)) AS cores, max(minramcount) AS ram_mb,
        ARRAY[greatest(0.0, extract(epoch FROM :now - min(creationtime)))::double precision] AS ages_s
    FROM (SELECT * FROM {defined} AS d UNION ALL SELECT * FROM {active} AS a
          WHERE jobstatus IN ('activated', 'throttled', 'sent', 'starting')) AS w
    WHERE computingsite IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"""
_TASKS = """
    SELECT t.jeditaskid AS task, t.username AS owner, {shape},
        coalesce(currentpriority, 0)::double precision AS priority,
        least(jobs, :most)::bigint AS jobs, greatest(coalesce(corecount, 1), 1) AS cores,
        ramcount::double precision * CASE WHEN ramunit LIKE 'MBPerCore%' THEN greatest(coalesce(corecount, 1), 1)
            ELSE 1 END AS ram_mb
    FROM {tasks} AS t JOIN (
        SELECT jeditaskid, max({files}) AS jobs FROM {datasets} AS s WHERE masterid IS NULL AND {files} > 0 GROUP BY 1
    ) AS s USING (jeditaskid)
    WHERE {where} ORDER BY t.jeditaskid"""
_LEFT, _WAITS = "nfilestobeused - coalesce(nfilesused, 0)", f"status IN ({_WAITING_TASKS})"
_ALL, _CAME = "coalesce(nullif(nfilestobeused, 0), nfiles)", "creationdate >= :since AND creationdate <= :now"
_ENDED = """
    SELECT queue, kind, processingtype, resource_type, sum(finished)::bigint AS finished, sum(failed)::bigint AS failed,
        sum(core_s - failed_core_s) AS core_s, sum(ratio_jobs)::bigint AS ratio_jobs, sum(ratio_ln_sum) AS ln_sum,
        sum(ratio_ln_square_sum) AS ln_square_sum
    FROM broker.queue_record WHERE kind <> 'test' AND hour >= :since
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
_CORES = """
    SELECT queue, max(most_cores_running)::bigint AS cores FROM broker.queue_cores
    WHERE kind = 'all' AND hour >= :since GROUP BY 1 ORDER BY 1"""


def work_rows(connection: sa.Connection, catalogue: TableCatalogue, now: datetime, window: timedelta) -> WorkRows:
    """Jobs running and waiting at ``now`` (aware), tasks that arrived within ``window`` before, and recent ends."""
    tables = {
        "active": catalogue.source("jobsactive4", _JOB),
        "defined": catalogue.source("jobsdefined4", _JOB),
        "tasks": catalogue.source("jedi_tasks", _TASK),
        "datasets": catalogue.source("jedi_datasets", _DATASET),
        "shape": _SHAPE,
    }
    parameters = {"now": naive(now), "since": naive(now - window), "most": MOST_JOBS}

    def rows(query: str, **parts: str) -> list[Mapping[str, Any]]:
        text = sa.text(query.format(**tables, **parts))
        used = {name: parameters[name] for name in parameters if f":{name}" in str(text)}
        return [dict(row) for row in connection.execute(text, used).mappings()]

    ended = connection.execute(sa.text(_ENDED), {"since": now - RECORD}).mappings()
    cores = connection.execute(sa.text(_CORES), {"since": now - CAPACITY}).mappings()
    return WorkRows(
        running=tuple(JobRow(**_job(row)) for row in rows(_RUNNING)),
        waiting=tuple(JobRow(**_job(row)) for row in rows(_WAITING)),
        unassigned=tuple(TaskRow(**_task(row)) for row in rows(_TASKS, files=_LEFT, where=_WAITS)),
        came=tuple(TaskRow(**_task(row)) for row in rows(_TASKS, files=_ALL, where=_CAME)),
        ended=tuple(EndedRow(**row) for row in ended),
        cores=tuple(CapRow(**row) for row in cores),
        window_s=window.total_seconds(),
    )


def _job(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**_task(row), "ages_s": tuple(float(age) for age in row["ages_s"])}


def _task(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {"ram_mb": None if row["ram_mb"] is None else float(row["ram_mb"]), "cores": int(row["cores"])}
    return {**row, "owner": row["owner"] or "", "task": int(row["task"]), "jobs": int(row["jobs"]), **numbers}
