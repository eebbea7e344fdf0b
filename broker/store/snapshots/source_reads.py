"""Reading the raw sources of a snapshot from PostgreSQL, in the caller's read-only transaction.

JSON columns are read as text and parsed by the snapshot builder, which knows what to do with a bad document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import sqlalchemy as sa

from broker.snapshot.build_links import KEYS
from broker.snapshot.build_pins import PINS
from broker.snapshot.job_rows import COUNTED_BY
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.source import Source, TableRead
from broker.store.connection.names import quoted
from broker.store.connection.tables import TableCatalogue
from broker.store.features import feature_rows
from broker.store.feeds import queue_pins
from broker.store.feeds.feed_documents import fed_at
from broker.store.pools import pool_reads
from broker.store.summaries.worker_node_summaries import CPU_SUMMARY, GPU_SUMMARY, refreshed_for

REPLICAS = "replicas"
JobStatistics = Literal["live", "panda"]


_LINK_KEYS = ", ".join(f"'{key}'" for key in KEYS)

#: The tables of each source that are read as they are.
READS: dict[str, tuple[TableRead, ...]] = {
    "queues": (
        TableRead("schedconfig_json", ("panda_queue", "data", "last_update"), ("data",), "last_update"),
        TableRead("panda_site", ("panda_site_name", "site_name")),
        TableRead("site", ("site_name", "role", "state")),
    ),
    "resource_types": (
        TableRead("resource_types", ("resource_name", "mincore", "maxcore", "minrampercore", "maxrampercore")),
    ),
    "work_queues": (TableRead("jedi_work_queue", ("queue_id", "queue_name", "vo", "status", "queue_function")),),
    "storages": (
        TableRead(
            "ddm_endpoint",
            (
                "ddm_endpoint_name",
                "site_name",
                "type",
                "is_tape",
                "space_total",
                "space_free",
                "space_expired",
                "space_min_free",
                "space_unavailable",
                "blacklisted_read",
                "detailed_status",
                "space_timestamp",
            ),
            ("detailed_status",),
            "space_timestamp",
        ),
        TableRead(
            "panda_ddm_relation",
            (
                "panda_site_name",
                "ddm_endpoint_name",
                "is_local",
                "roles",
                "order_read",
                "order_write",
                "default_read",
                "default_write",
                "scope",
            ),
        ),
    ),
    "links": (
        TableRead(
            "network_matrix_kv", ("src", "dst", "key", "value", "ts"), stamp="ts", where=f"key IN ({_LINK_KEYS})"
        ),
    ),
    "pilots": (
        TableRead(
            "sitedata",
            ("site", "flag", "hours", "getjob", "updatejob", "laststart", "lastmod"),
            stamp="lastmod",
            where="hours = 3 AND flag IN ('production', 'analysis')",
        ),
    ),
    "slots": (
        TableRead("harvester_slots", ("pandaqueuename", "gshare", "resourcetype", "numslots", "expirationtime")),
    ),
    "workers": (
        TableRead(
            "harvester_worker_stats",
            ("harvester_id", "computingsite", "resourcetype", "status", "jobtype", "n_workers", "lastupdate"),
            where="status IN ('running', 'submitted')",
        ),
    ),
    "software": (TableRead("sw_tags", ("panda_queue", "data", "last_update"), ("data",), "last_update"),),
    "worker_nodes": (
        TableRead(
            "mv_worker_node_summary",
            ("panda_queue", "cpu_architecture_level", "pct_within_pq"),
            where="cpu_architecture_level IS NOT NULL",
        ),
    ),
    "gpus": (
        TableRead(
            "mv_worker_node_gpu_summary",
            (
                "panda_queue",
                "vendor",
                "model",
                "vram",
                "architecture",
                "framework_version",
                "driver_version",
                "gpus_per_host",
                "host_count",
            ),
        ),
    ),
}

#: Sources whose rows carry no time, and the summary whose refresh tells their age.
_SUMMARIES = {"worker_nodes": CPU_SUMMARY.table, "gpus": GPU_SUMMARY.table}

COUNT_COLUMNS = (*COUNTED_BY, "njobs", "ncores", "diskio_jobs", "diskio_per_core")
_JOB_COLUMNS = (*COUNTED_BY, "actualcorecount", "corecount", "diskio")
_STATISTICS_COLUMNS = (*COUNTED_BY[:7], "njobs", "prorated_diskio_avg", "ts")

_LIVE = """
SELECT computingsite, gshare, workqueue_id, jobstatus, resource_type, nucleus, vo, prodsourcelabel,
       count(*) AS njobs,
       coalesce(sum(coalesce(actualcorecount, corecount)), 0)::bigint AS ncores,
       count(diskio) AS diskio_jobs,
       coalesce(sum(diskio::float8 / greatest(coalesce(corecount, 1), 1)), 0) AS diskio_per_core
FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {defined} AS d) AS jobs
WHERE computingsite IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""
_PANDA = """
SELECT computingsite, gshare, workqueue_id, jobstatus, resource_type, nucleus, vo, NULL AS prodsourcelabel,
       sum(njobs)::bigint AS njobs, 0 AS ncores,
       (sum(njobs) FILTER (WHERE prorated_diskio_avg IS NOT NULL))::bigint AS diskio_jobs,
       sum(prorated_diskio_avg * njobs)::float8 AS diskio_per_core
FROM (SELECT * FROM {active} AS a UNION ALL SELECT * FROM {defined} AS d) AS jobs
GROUP BY 1, 2, 3, 4, 5, 6, 7
UNION ALL
SELECT computingsite, NULL, NULL, jobstatus, NULL, NULL, vo, prodsourcelabel, 0, sum(num_of_cores)::bigint, 0, 0
FROM {cores} AS c WHERE jobstatus IN ('running', 'starting')
GROUP BY computingsite, jobstatus, vo, prodsourcelabel
ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""


def read_sources(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    job_statistics: JobStatistics = "live",
    tick: Callable[[], None] = lambda: None,
) -> dict[str, RawSource]:
    """All sources of a snapshot; of the replicas, which are read with the work, only the age that a feed gives them.

    Args:
        connection: read-only REPEATABLE READ, so that all sources are of one instant.
        catalogue: the tables that the database has.
        job_statistics: ``live`` counts the job tables, ``panda`` reads PanDA's statistics tables.
        tick: called after each source, for time budgets.
    """
    sources: dict[str, RawSource] = {}
    for name in READS:
        sources[name] = read_source(connection, catalogue, name)
        tick()
    sources["jobs"] = _read_jobs(connection, catalogue, job_statistics)
    sources["features"] = feature_rows.read_source(connection)
    sources["pools"] = pool_reads.read_source(connection)
    sources[PINS] = queue_pins.read_source(connection)
    return aged_by_feeds(connection, sources)


def read_outside_source(connection: sa.Connection, catalogue: TableCatalogue, source: Source) -> tuple[RawSource, str]:
    """The rows of a source of another distribution, and why they could not be read; a fault of it stops no cycle."""
    savepoint = connection.begin_nested()
    try:
        tables = {read.table: _read(connection, catalogue, read) for read in source.reads}
        savepoint.commit()
    except sa.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        savepoint.rollback()
        return RawSource(source.name, {}), f"{type(error.orig).__name__}: {str(error.orig).splitlines()[0]}"[:200]
    return RawSource(source.name, tables, _newest(tables, source.reads)), ""


def aged_by_feeds(connection: sa.Connection, sources: Mapping[str, RawSource]) -> dict[str, RawSource]:
    """The sources, each no younger than the oldest of the documents that feeds made it from."""
    fed = fed_at(connection)
    if REPLICAS in fed:
        sources = {**sources, REPLICAS: RawSource(REPLICAS, {})}
    return {name: _no_younger(source, fed.get(name)) for name, source in sources.items()}


def _no_younger(source: RawSource, fed: datetime | None) -> RawSource:
    if fed is None:
        return source
    return replace(source, newest=fed if source.newest is None else min(source.newest, fed))


def read_source(connection: sa.Connection, catalogue: TableCatalogue, name: str) -> RawSource:
    """One source of those whose tables are read as they are (:data:`READS`)."""
    reads = READS[name]
    tables = {read.table: _read(connection, catalogue, read) for read in reads}
    summary = _SUMMARIES.get(name)
    newest = _newest(tables, reads) if summary is None else refreshed_for(connection, summary)
    return RawSource(name, tables, newest)


def _read(connection: sa.Connection, catalogue: TableCatalogue, read: TableRead) -> Rows:
    columns = ", ".join(f'r."{name}"::text' if name in read.as_text else f'r."{name}"' for name in read.columns)
    where = f" WHERE {read.where}" if read.where else ""
    own = "." in read.table
    source = quoted_table(read.table) if own else catalogue.source(read.table, read.columns)
    # names come from the constants above; S608 sees only that text is put together
    order = _all_of(read.columns)
    if read.counted:
        statement = f"SELECT {columns}, count(*) FROM {source} AS r{where} GROUP BY {order} ORDER BY {order}"  # noqa: S608
        return _rows(connection, statement, (*read.columns, "counted"))
    return _rows(connection, f"SELECT {columns} FROM {source} AS r{where} ORDER BY {order}", read.columns)  # noqa: S608


def quoted_table(name: str) -> str:
    """``schema.table`` as SQL has it."""
    return ".".join(quoted(part) for part in name.split(".", 1))


def _all_of(columns: tuple[str, ...]) -> str:
    # by every column, so that equal content gives equal rows in equal order, and the same digest
    return ", ".join(str(position) for position in range(1, len(columns) + 1))


def _rows(connection: sa.Connection, statement: str, columns: tuple[str, ...]) -> Rows:
    found = connection.exec_driver_sql(statement).all()
    return Rows(columns, tuple(tuple(row) for row in found))


def _newest(tables: Mapping[str, Rows], reads: tuple[TableRead, ...]) -> datetime | None:
    stamps = [
        row[rows.columns.index(read.stamp)]
        for read in reads
        if read.stamp is not None
        for rows in (tables[read.table],)
        for row in rows.values
    ]
    return max((_aware(stamp) for stamp in stamps if isinstance(stamp, datetime)), default=None)


def _aware(stamp: datetime) -> datetime:
    return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp


def _read_jobs(connection: sa.Connection, catalogue: TableCatalogue, statistics: JobStatistics) -> RawSource:
    if statistics == "live":
        statement = _LIVE.format(
            active=catalogue.source("jobsactive4", _JOB_COLUMNS), defined=catalogue.source("jobsdefined4", _JOB_COLUMNS)
        )
        return RawSource("jobs", {"job_counts": _rows(connection, statement, COUNT_COLUMNS)})
    statement = _PANDA.format(
        active=catalogue.source("jobs_share_stats", _STATISTICS_COLUMNS),
        defined=catalogue.source("jobsdefined_share_stats", _STATISTICS_COLUMNS),
        cores=catalogue.source(
            "mv_jobsactive4_stats", ("computingsite", "jobstatus", "vo", "prodsourcelabel", "num_of_cores")
        ),
    )
    newest = connection.exec_driver_sql(
        f"SELECT max(ts) FROM {catalogue.source('jobs_share_stats', ('ts',))} AS s"  # noqa: S608 - as above
    ).scalar()
    stamp = _aware(newest) if isinstance(newest, datetime) else None
    return RawSource("jobs", {"job_counts": _rows(connection, statement, COUNT_COLUMNS)}, stamp)
