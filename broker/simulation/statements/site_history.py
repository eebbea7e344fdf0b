"""Statements that count a site's history in PanDA's own tables: aggregates by queue, task and worker, never rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.simulation.model.calibration.site_history import (
    History,
    QueueRecord,
    TaskAtQueue,
    TaskRecord,
    WorkersRecord,
    counted,
)
from broker.simulation.statements.ended_jobs import ended_jobs
from broker.simulation.statements.site_tape import site_tape
from broker.store.connection.tables import Names

_JOBS = """
WITH jobs AS MATERIALIZED (
    SELECT pandaid, jeditaskid, computingsite, jobstatus, starttime, endtime, minramcount, prodsourcelabel, gshare,
        coalesce(processingtype, '') AS kind,
        greatest(coalesce(actualcorecount, corecount, 1), 1) AS cores, coalesce(attemptnr, 0) AS attemptnr,
        nullif(cpuconsumptiontime, 0) * coalesce(s.speed, 1.0) AS cpu_s,
        CASE WHEN endtime > starttime THEN extract(epoch FROM endtime - starttime) * coalesce(s.speed, 1.0) END
            AS wall_s,
        modificationtime >= :since AND modificationtime < :until AND jobstatus IN ('finished', 'failed') AS ended
    FROM {ended} AS t LEFT JOIN (
        SELECT * FROM unnest(CAST(:queues AS text[]), CAST(:kinds AS text[]), CAST(:speeds AS double precision[]))
    ) AS s (queue, of_kind, speed) ON s.queue = t.computingsite AND s.of_kind = coalesce(t.processingtype, '')
    WHERE computingsite IS NOT NULL AND {where})"""
_OVERLAPS = "(modificationtime >= :since AND modificationtime < :until OR starttime < :until AND endtime > :since)"
_QUANTILES = "percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY {value}) FILTER (WHERE {where})"
_QUEUES = """
SELECT computingsite AS name, count(*) FILTER (WHERE ended) AS jobs,
    count(*) FILTER (WHERE ended AND jobstatus = 'failed') AS failed,
    coalesce(sum(greatest(0, extract(epoch FROM least(endtime, :until) - greatest(starttime, :since))) * cores), 0)
        AS core_s,
    count(*) FILTER (WHERE {good}) AS n, {wall} AS wall
FROM jobs GROUP BY 1 ORDER BY 1"""
_GOOD = "ended AND jobstatus = 'finished' AND wall_s IS NOT NULL"
#: At equal instants, ends count before starts.
_MOST = """
SELECT name, max(running) AS most FROM (
    SELECT name, sum(cores) OVER (PARTITION BY name ORDER BY at, cores ROWS UNBOUNDED PRECEDING) AS running
    FROM (SELECT computingsite AS name, starttime AS at, {cores} AS cores FROM {source} AS s
            WHERE starttime IS NOT NULL AND starttime < :until AND coalesce(endtime, :until) > :since
        UNION ALL
        SELECT computingsite, coalesce(endtime, :until), -{cores} FROM {source} AS s
            WHERE starttime IS NOT NULL AND starttime < :until AND coalesce(endtime, :until) > :since) AS changes
    ) AS counted
GROUP BY 1"""
_WAITS = """
SELECT name, count(*) AS n, percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY wait_s) AS wait
FROM (SELECT max(computingsite) FILTER (WHERE jobstatus = 'running') AS name,
        min(modificationtime) FILTER (WHERE jobstatus = 'running') AS started,
        extract(epoch FROM min(modificationtime) FILTER (WHERE jobstatus = 'running')
            - min(modificationtime) FILTER (WHERE jobstatus = 'activated'))::double precision AS wait_s
    FROM {panda}.jobs_statuslog
    WHERE jobstatus IN ('activated', 'running') AND modificationtime < :until
        AND pandaid IN (SELECT pandaid FROM {panda}.jobs_statuslog
            WHERE jobstatus = 'running' AND modificationtime >= :since AND modificationtime < :until)
    GROUP BY pandaid) AS firsts
WHERE started >= :since AND wait_s >= 0 AND name IS NOT NULL
GROUP BY 1"""
_POWERS = """
SELECT coalesce(nullif(data::text::json->>'nickname', ''), panda_queue) AS name,
    data::text::json->>'corepower' AS corepower
FROM {panda}.schedconfig_json WHERE data IS NOT NULL"""
_AT_QUEUES = """
SELECT jeditaskid AS task, kind, computingsite AS queue, count(*) AS jobs,
    count(*) FILTER (WHERE jobstatus = 'failed') AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY wall_s) FILTER (WHERE {good}) AS wall_s
FROM jobs WHERE ended AND jeditaskid IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
_TASKS = """,
came AS (
    SELECT jeditaskid, creationdate, gshare, prodsourcelabel, username, coalesce(taskpriority, 0) AS priority,
        dense_rank() OVER (ORDER BY username) AS owner
    FROM {panda}.jedi_tasks WHERE creationdate >= :since AND creationdate < :until),
firsts AS (SELECT jeditaskid, min(attemptnr) AS attemptnr FROM jobs GROUP BY 1),
files AS (
    SELECT jeditaskid,
        sum(fsize) FILTER (WHERE type = 'input') / 1e9 / nullif(count(DISTINCT pandaid), 0) AS input_gb,
        sum(fsize) FILTER (WHERE type = 'output') / 1e9 / nullif(count(DISTINCT pandaid), 0) AS output_gb
    FROM {panda}.filestable4 WHERE jeditaskid IN (SELECT jeditaskid FROM came) GROUP BY 1)
SELECT c.jeditaskid AS task, mode() WITHIN GROUP (ORDER BY j.kind) AS kind,
    extract(epoch FROM c.creationdate - CAST(:since AS timestamp)) AS arrival_s,
    coalesce(c.gshare, max(j.gshare), '') AS share,
    coalesce(c.prodsourcelabel, max(j.prodsourcelabel)) = 'user' AS analysis, c.owner, c.priority,
    count(*) FILTER (WHERE j.attemptnr = f.attemptnr) AS jobs, count(*) AS attempts,
    count(*) FILTER (WHERE j.jobstatus = 'failed') AS failed, mode() WITHIN GROUP (ORDER BY j.cores) AS cores,
    max(j.minramcount) AS asked_mb, count(*) FILTER (WHERE {good}) AS n, {wall} AS wall,
    count(*) FILTER (WHERE {good} AND j.cpu_s IS NOT NULL) AS cpu_n, {cpu} AS cpu,
    max(s.input_gb) AS input_gb, max(s.output_gb) AS output_gb
FROM came AS c JOIN jobs AS j USING (jeditaskid) JOIN firsts AS f USING (jeditaskid)
    LEFT JOIN files AS s USING (jeditaskid)
WHERE j.jobstatus IN ('finished', 'failed')
GROUP BY c.jeditaskid, c.creationdate, c.gshare, c.prodsourcelabel, c.owner, c.priority ORDER BY 3, 1"""
_OF_TASKS = (
    "jeditaskid IN (SELECT jeditaskid FROM {panda}.jedi_tasks WHERE creationdate >= :since AND creationdate < :until)"
)
_GOOD_OF_TASK = "j.jobstatus = 'finished' AND j.wall_s IS NOT NULL"
#: A batch system fills a free slot within this time (assumed: it looks for work periodically).
_GIVEN_WITHIN = "interval '2 minutes'"
#: A worker that starts when no other has recently left the queue found a free slot: only the batch system delayed it.
#: A worker that waited for a slot starts when another one leaves; the model adds that wait itself.
_FREE = f"left_at IS NULL OR at - left_at > {_GIVEN_WITHIN}"
_THREE = "percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY wait_s)"
_WORKERS = f"""
WITH changes AS (
    SELECT computingsite AS queue, starttime AS at, true AS starts, CAST(NULL AS timestamp) AS left_at,
        CASE WHEN submittime >= :since AND submittime < :until AND starttime >= submittime
            THEN extract(epoch FROM starttime - submittime)::double precision END AS wait_s
    FROM {{panda}}.harvester_workers WHERE starttime >= :since AND starttime < :until
    UNION ALL
    SELECT computingsite, endtime, false, endtime, NULL FROM {{panda}}.harvester_workers
    WHERE starttime IS NOT NULL AND endtime >= :since - {_GIVEN_WITHIN} AND endtime < :until),
after AS (
    SELECT queue, at, wait_s,
        max(left_at) OVER (PARTITION BY queue ORDER BY at, starts ROWS UNBOUNDED PRECEDING) AS left_at
    FROM changes),
waited AS (
    SELECT queue, count(wait_s) AS n, {_THREE} AS delay, count(wait_s) FILTER (WHERE {_FREE}) AS free_n,
        {_THREE} FILTER (WHERE {_FREE}) AS free_delay
    FROM after GROUP BY 1)
SELECT w.computingsite AS queue, count(*) AS workers,
    count(*) FILTER (WHERE w.endtime IS NOT NULL AND coalesce(w.njobs, 0) = 0) AS empty,
    count(*) FILTER (WHERE w.status = 'missed') AS lost,
    max(f.n) AS n, max(f.delay) AS delay, max(f.free_n) AS free_n, max(f.free_delay) AS free_delay
FROM {{panda}}.harvester_workers AS w LEFT JOIN waited AS f ON f.queue = w.computingsite
WHERE w.computingsite IS NOT NULL AND w.submittime >= :since AND w.submittime < :until
GROUP BY 1 ORDER BY 1"""  # noqa: S608 - our words


def site_history(
    connection: sa.Connection,
    names: Names,
    since: datetime,
    until: datetime,
    speeds: Mapping[tuple[str, str], float] | None = None,
) -> History:
    """Read the history of queues, tasks and workers from ``since`` to ``until`` (excluded), both aware.

    Args:
        connection: connection to the database with PanDA's tables.
        names: names of its schemata.
        since: start of the span, included.
        until: end of the span, excluded.
        speeds: speeds of queues by type of processing; wall and CPU times of tasks are multiplied by the speed of the
            queue where they ran.
    """
    span: dict[str, Any] = {"since": naive(since), "until": naive(until)}
    no_speeds: dict[str, Any] = {"queues": [], "kinds": [], "speeds": []}
    items = list((speeds or {}).items())
    speed_columns = {
        "queues": [queue for (queue, _), _ in items],
        "kinds": [kind for (_, kind), _ in items],
        "speeds": [speed for _, speed in items],
    }
    ended = ended_jobs(connection, names)

    def rows(statement: str, where: str = "") -> Sequence[Any]:
        head = _JOBS.replace("{ended}", ended).replace("{where}", where) if where else ""
        values = span | (speed_columns if where == _OF_TASKS else no_speeds) if where else span
        return connection.execute(sa.text(names.sql(head + statement)), values).all()

    most = _most(rows, ended)
    waits = {row.name: counted(row.n, row.wait) for row in rows(_WAITS)}
    powers = {row.name: power for row in rows(_POWERS) if (power := _positive(row.corepower))}
    return History(
        since.timestamp(), until.timestamp(),
        tuple(
            QueueRecord(q.name, q.jobs, q.failed, float(q.core_s), float(most.get(q.name, 0.0)),
                        counted(q.n, q.wall), waits.get(q.name), powers.get(q.name))
            for q in rows(_filled(_QUEUES, _GOOD), _OVERLAPS)
        ),
        tuple(
            TaskAtQueue(row.task, row.kind, row.queue, row.jobs, row.failed, row.wall_s)
            for row in rows(_filled(_AT_QUEUES, _GOOD), _OVERLAPS)
        ),
        tuple(_task(row) for row in rows(_filled(_TASKS, _GOOD_OF_TASK, "j."), _OF_TASKS)),
        tuple(_workers(row) for row in rows(_WORKERS)),
        *site_tape(connection, names, since, until),
    )  # fmt: skip


def _filled(statement: str, good: str, table: str = "") -> str:
    """The statement with the condition of a good job and the quantiles of wall and CPU time filled in."""
    good_with_cpu = f"{good} AND {table}cpu_s IS NOT NULL"
    parts = {
        "{good}": good,
        "{wall}": _QUANTILES.format(value=f"{table}wall_s", where=good),
        "{cpu}": _QUANTILES.format(value=f"{table}cpu_s", where=good_with_cpu),
    }
    for key, value in parts.items():
        statement = statement.replace(key, value)
    return statement


def _most(rows: Any, ended: str) -> dict[str, float]:
    """Maximum of concurrent cores by queue, from jobs or from workers, whichever is larger."""
    most_cores: dict[str, float] = {}
    cores_of_job = "greatest(coalesce(actualcorecount, corecount, 1), 1)"
    for source, cores in ((ended, cores_of_job), ("{panda}.harvester_workers", "greatest(coalesce(ncore, 1), 1)")):
        for row in rows(_MOST.replace("{source}", source).replace("{cores}", cores)):
            if row.name is not None:
                most_cores[row.name] = max(most_cores.get(row.name, 0.0), float(row.most))
    return most_cores


def _workers(row: Any) -> WorkersRecord:
    delay, free = counted(row.n or 0, row.delay), counted(row.free_n or 0, row.free_delay)
    return WorkersRecord(row.queue, row.workers, row.empty, delay, row.lost, free)


def _task(row: Any) -> TaskRecord:
    def number(value: Any) -> float | None:
        return None if value is None else float(value)

    return TaskRecord(
        row.task, row.kind, float(row.arrival_s), row.share, bool(row.analysis), int(row.owner) - 1,
        float(row.priority),
        row.jobs, row.attempts, row.failed, int(row.cores), number(row.asked_mb), counted(row.n, row.wall),
        counted(row.cpu_n, row.cpu), number(row.input_gb), number(row.output_gb),
    )  # fmt: skip


def _positive(text: str | None) -> float | None:
    """The number above 0 in a text; None for anything else, as a queue without a core power is no error."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < math.inf else None
