"""Reading the sources that only analysis needs: users' jobs, PanDA's metrics and quotas.

Source: PanDA analysis brokerage, inputs per rule and counting rules.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.snapshot.raw import RawSource, Rows
from broker.store.connection.tables import TableCatalogue
from broker.store.summaries.worker_node_summaries import refreshed_for

#: Under this name whoever copies the quotas may note in ``summary_refreshes`` when; without it they have no age.
QUOTA_REFRESH = "rucio_usage"
#: Starts of jobs are counted over this time.
STARTS_WINDOW = timedelta(hours=6)

_JOB_COLUMNS = (
    "pandaid", "computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "processingtype",
    "jobstatus", "corecount", "starttime",
)  # fmt: skip
COUNT_COLUMNS = (
    "computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "is_merge", "is_defined",
    "running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores",
)  # fmt: skip
METRIC_COLUMNS = ("computingsite", "gshare", "metric", "value_json", "timestamp")
_METRICS_READ = "('gshare_preference', 'analy_site_eval', 'analy_user_eval')"

_COUNTS = """
SELECT computingsite, gshare, produsername, workinggroup, prodsourcelabel,
       coalesce(processingtype = 'pmerge', false) AS is_merge, is_defined,
       count(*) FILTER (WHERE jobstatus = 'running'),
       count(*) FILTER (WHERE jobstatus = 'throttled'),
       count(*) FILTER (WHERE jobstatus IN ('defined', 'assigned', 'activated', 'starting')),
       coalesce(sum(corecount) FILTER (WHERE jobstatus = 'running'), 0)::bigint,
       coalesce(sum(corecount) FILTER (
           WHERE jobstatus IN ('defined', 'assigned', 'activated', 'starting', 'throttled')), 0)::bigint
FROM (
    SELECT a.*, false AS is_defined FROM {active} AS a UNION ALL
    SELECT d.*, true FROM {defined} AS d WHERE NOT EXISTS (SELECT FROM {active} AS a WHERE a.pandaid = d.pandaid)
) AS jobs
GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
"""
_STARTS = """
SELECT computingsite, count(*) FROM (
    SELECT * FROM {active} AS a UNION ALL SELECT * FROM {archived} AS f) AS jobs
WHERE computingsite IS NOT NULL AND starttime >= :since AND starttime <= :now
GROUP BY 1 ORDER BY 1
"""


def read_analysis_sources(
    connection: sa.Connection, catalogue: TableCatalogue, now: datetime
) -> tuple[dict[str, RawSource], dict[str, str]]:
    """The sources at ``now``, in the caller's read-only transaction, and the reasons of those that cannot be read.

    Quotas come from another system, whose failing must not stop the brokerage: the policy for them says what to do.
    """
    active, defined, archived = (
        catalogue.source(table, _JOB_COLUMNS) for table in ("jobsactive4", "jobsdefined4", "jobsarchived4")
    )
    counts = sa.text(_COUNTS.format(active=active, defined=defined))
    starts = sa.text(_STARTS.format(active=active, archived=archived))
    moment = now.astimezone(UTC).replace(tzinfo=None)
    window = {"now": moment, "since": moment - STARTS_WINDOW}
    sources = {
        "user_jobs": RawSource(
            "user_jobs",
            {
                "user_job_counts": _rows(connection, counts, COUNT_COLUMNS, {}),
                "job_starts": _rows(connection, starts, ("computingsite", "njobs"), window),
            },
        ),
        "metrics": RawSource("metrics", {"metrics": _metrics(connection, catalogue)}),
    }
    savepoint = connection.begin_nested()
    try:
        sources["quota"] = _quota(connection, catalogue)
        savepoint.commit()
    except sa.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        savepoint.rollback()
        return sources, {"quota": f"{type(error.orig).__name__}: {str(error.orig).splitlines()[0]}"[:200]}
    return sources, {}


def _rows(connection: sa.Connection, query: sa.TextClause, columns: tuple[str, ...], values: dict[str, Any]) -> Rows:
    return Rows(columns, tuple(tuple(row) for row in connection.execute(query, values)))


def _metrics(connection: sa.Connection, catalogue: TableCatalogue) -> Rows:
    columns = ", ".join(f'm."{name}"::text' if name == "value_json" else f'm."{name}"' for name in METRIC_COLUMNS)
    source = catalogue.source("metrics", METRIC_COLUMNS)
    query = f"SELECT {columns} FROM {source} AS m WHERE metric IN {_METRICS_READ} ORDER BY 3, 1, 2, 4"  # noqa: S608
    return _rows(connection, sa.text(query), METRIC_COLUMNS, {})


def _quota(connection: sa.Connection, catalogue: TableCatalogue) -> RawSource:
    tables = {}
    for table, place in (("rucio_account_usage", "rse_expression"), ("rucio_local_usage", "rse")):
        columns = ("account", place, "bytes", "bytes_limit")
        query = f"SELECT {', '.join(columns)} FROM {catalogue.names.own(table)} ORDER BY 1, 2"  # noqa: S608
        tables[table] = _rows(connection, sa.text(query), columns, {})
    return RawSource("quota", tables, refreshed_for(connection, QUOTA_REFRESH))
