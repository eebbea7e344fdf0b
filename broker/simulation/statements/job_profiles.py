"""Statements that count profiles of jobs in PanDA's own tables, by task and by queue, never row by row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.simulation.statements.ended_jobs import ended_jobs
from broker.store.connection.tables import Names

#: Jobs that were cancelled or closed are neither finished nor failed.
_ENDED = """
    SELECT jeditaskid, concat_ws(' ', processingtype, coalesce(actualcorecount, corecount, 1)) AS pooled,
        produsername, computingsite, jobstatus = 'failed' AS failed, minramcount,
        CASE WHEN endtime > starttime THEN extract(epoch FROM endtime - starttime) END AS wall_s,
        nullif(cpuconsumptiontime, 0)::double precision AS cpu_s,
        greatest(coalesce(actualcorecount, corecount, 1), 1) AS cores, nullif(maxrss, 0) / 1024.0 AS rss_mb,
        concat_ws('/', coalesce(piloterrorcode, 0), coalesce(exeerrorcode, 0),
                  coalesce(nullif(transexitcode, ''), '0')) AS code
    FROM {ended_jobs} AS t
    WHERE modificationtime >= :since AND modificationtime < :until AND jobstatus IN ('finished', 'failed')
        AND jeditaskid IS NOT NULL AND computingsite IS NOT NULL"""
#: Minimum users of a label that leaves the site.
FEWEST_USERS = 5
_GOOD = "NOT failed AND wall_s IS NOT NULL AND cpu_s IS NOT NULL"
_FOUR = """
    array_prepend(avg({value}) FILTER (WHERE {good}),
                  percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY {value}) FILTER (WHERE {good}))"""
_CELLS = """
WITH ended AS ({ended})
SELECT {key}::text AS name, count(*) AS jobs, count(*) FILTER (WHERE failed) AS failed,
    count(DISTINCT minramcount) AS asks, count(DISTINCT produsername) AS users, max(minramcount) AS asked_mb,
    {quantiles}
FROM ended GROUP BY {key} ORDER BY {key}"""
_COUNTS = """
WITH ended AS ({ended})
SELECT {key}::text AS name, {part} AS part, count(*) AS jobs FROM ended {where} GROUP BY 1, 2 ORDER BY 1, 2"""
_VALUES = {
    "wall_s": "wall_s::double precision",
    "cpu_s": "cpu_s",
    "cpu_efficiency": "(cpu_s / (wall_s * cores))::double precision",
    "max_rss_mb": "rss_mb::double precision",
}


def job_profiles(
    connection: sa.Connection, names: Names, since: datetime, until: datetime, *, share: bool = False
) -> dict[str, Any]:
    """The document of profiles of the jobs that ended from ``since`` to ``until`` (excluded).

    Args:
        connection: connection to the database with PanDA's tables.
        names: names of its schemata.
        since: start of the span, included, aware.
        until: end of the span, excluded, aware.
        share: whether the document may leave the site: labels are types of processing with their cores in place of
            tasks, and labels of fewer than :data:`FEWEST_USERS` users are left out. The fit drops the names of queues.
    """
    key, ended = "pooled" if share else "jeditaskid", ended_jobs(connection, names)
    span = {"since": naive(since), "until": naive(until)}

    def rows(statement: str) -> Sequence[Any]:
        return connection.execute(sa.text(names.sql(statement.replace("{ended_jobs}", ended))), span).all()

    failures = {column: _counted(rows(_counts(column, "code", "WHERE failed"))) for column in (key, "computingsite")}
    queues = _counted(rows(_counts(key, "computingsite", "")))
    labels = [
        _cell(row, failures[key]) | {"label": f"task {row.name}", "queues": queues.get(row.name, {})}
        for row in rows(_cells(key))
        if not share or row.users >= FEWEST_USERS
    ]
    at_queues = [
        _cell(row, failures["computingsite"])
        | {"set": "own", "queue": row.name, "memory_asked_mb": row.asked_mb if row.asks == 1 else None}
        for row in rows(_cells("computingsite"))
    ]
    source = f"jobsarchived4 from {since.isoformat()} to {until.isoformat()}"
    return {"source": source, "labels": labels, "queues": at_queues}


def _cells(key: str) -> str:
    quantiles = ", ".join(f"{_FOUR.format(value=value, good=_GOOD)} AS {name}" for name, value in _VALUES.items())
    return _CELLS.replace("{ended}", _ENDED).replace("{key}", key).replace("{quantiles}", quantiles)


def _counts(key: str, part: str, where: str) -> str:
    statement = _COUNTS.replace("{ended}", _ENDED).replace("{key}", key)
    return statement.replace("{part}", part).replace("{where}", where)


def _counted(rows: Sequence[Any]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row.name, {})[row.part] = row.jobs
    return counts


def _cell(row: Any, failures: dict[str, dict[str, int]]) -> dict[str, Any]:
    quantities = {name: getattr(row, name) for name in _VALUES}
    known = {name: [float(one) for one in row] for name, row in quantities.items() if row and None not in row}
    return {"jobs": row.jobs, "failed": row.failed, "failures": failures.get(row.name, {}), **known}
