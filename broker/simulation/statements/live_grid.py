"""Statements with which the driver of the demonstration stands in for feeds, pilots and site admins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.feeds.model.rows import RowChange, TableChanges
from broker.feeds.statements.feed_runs import FeedRun, write_run
from broker.pilots.statements.activation import ActivationSplit, write_sorted
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.writes.job_row_sql import note_status

FEED = "demo"
_REFRESHED = (
    ("{panda}.schedconfig_json", ("last_update",)),
    ("{panda}.sw_tags", ("last_update",)),
    ("{panda}.ddm_endpoint", ("space_timestamp",)),
    ("{panda}.network_matrix_kv", ("ts",)),
    ("{panda}.harvester_worker_stats", ("lastupdate",)),
    ("{panda}.harvester_slots", ("modificationtime", "expirationtime")),
    ("{meta}.sitedata", ("lastmod", "laststart")),
)
_HEARTBEATS = """
UPDATE {panda}.jobsactive4 SET modificationtime = :now
WHERE jobstatus IN ('starting', 'running', 'transferring')"""
_READ_JOBS = """
SELECT pandaid, jobstatus AS status, computingsite AS queue FROM {panda}.jobsactive4
WHERE jobstatus IN ('activated', 'starting', 'running') AND computingsite IS NOT NULL
UNION ALL SELECT pandaid, jobstatus, computingsite FROM {panda}.jobsdefined4
WHERE jobstatus = 'assigned' AND computingsite IS NOT NULL ORDER BY pandaid"""
_START = """
WITH changed AS (
    UPDATE {panda}.jobsactive4 SET jobstatus = 'running', starttime = :now, modificationtime = :now
    WHERE pandaid = ANY(:jobs) AND jobstatus IN ('activated', 'starting')
    RETURNING pandaid, jobstatus, prodsourcelabel, cloud, computingsite, jeditaskid
), runs AS (
    UPDATE {panda}.jedi_dataset_contents AS file SET proc_status = 'running'
    FROM changed WHERE file.jeditaskid = changed.jeditaskid AND file.pandaid = changed.pandaid
      AND file.status = 'running' AND file.type IN ('input', 'pseudo_input', 'pp_input', 'trn_log', 'trn_output')
) NOTE_STATUS""".replace("NOTE_STATUS", note_status("changed", ":now"))
_END = """
WITH ended AS (
    SELECT * FROM unnest(CAST(:jobs AS bigint[]), CAST(:failed AS boolean[])) AS one (pandaid, failed)
), changed AS (
    UPDATE {panda}.jobsactive4 AS job SET jobstatus = 'holding', endtime = :now, modificationtime = :now,
        piloterrorcode = CASE WHEN ended.failed THEN 1305 ELSE piloterrorcode END
    FROM ended WHERE job.pandaid = ended.pandaid AND job.jobstatus = 'running'
    RETURNING job.pandaid, job.jobstatus, job.prodsourcelabel, job.cloud, job.computingsite, job.jeditaskid,
        coalesce(job.attemptnr, 0) AS attemptnr, ended.failed
), reported AS (
    INSERT INTO {panda}.job_output_report (pandaid, attemptnr, prodsourcelabel, jobstatus, timestamp, data, jeditaskid)
    SELECT pandaid, attemptnr, prodsourcelabel, CASE WHEN failed THEN 'failed' ELSE 'finished' END, :now, '', jeditaskid
    FROM changed ON CONFLICT (pandaid, attemptnr) DO NOTHING
) NOTE_STATUS""".replace("NOTE_STATUS", note_status("changed", ":now"))
_SWITCH = """
UPDATE {panda}.schedconfig_json AS queue
SET data = jsonb_set(CAST(queue.data AS jsonb), '{status}', to_jsonb(CAST(:status AS text)))
FROM {panda}.schedconfig_json AS old
WHERE old.panda_queue = queue.panda_queue AND queue.panda_queue = :queue AND old.data ->> 'status' <> :status
RETURNING old.data ->> 'status' AS before"""
_READ_NEXT_NUMBERS = """
SELECT (SELECT max(jeditaskid) FROM {panda}.jedi_tasks) + 1 AS task,
    (SELECT max(datasetid) FROM {panda}.jedi_datasets) + 1 AS dataset,
    (SELECT max(fileid) FROM {panda}.jedi_dataset_contents) + 1 AS file"""


def next_numbers(connection: sa.Connection, names: Names) -> tuple[int, int, int]:
    """The first unused numbers of a task, a dataset and a file."""
    row = connection.execute(sa.text(names.sql(_READ_NEXT_NUMBERS))).one()
    return int(row.task), int(row.dataset), int(row.file)


def read_jobs(connection: sa.Connection, names: Names) -> list[tuple[int, str, str]]:
    """Number, status and queue of the jobs that wait for their input or for pilots, or run."""
    return [(row.pandaid, row.status, row.queue) for row in connection.execute(sa.text(names.sql(_READ_JOBS)))]


def refresh_sources(connection: sa.Connection, names: Names, passed_s: float, now: datetime) -> None:
    """Refresh the sources: each is as old at ``now`` (aware) as ``passed_s`` before. Active jobs send a heartbeat."""
    for table, columns in _REFRESHED:
        settings = ", ".join(f"{name} = {name} + make_interval(secs => :passed_s)" for name in columns)
        connection.execute(sa.text(names.sql(f"UPDATE {table} SET {settings}")), {"passed_s": passed_s})  # noqa: S608
    connection.execute(sa.text(names.sql(_HEARTBEATS)), {"now": naive(now)})


def bring_inputs(
    connection: sa.Connection, catalogue: TableCatalogue, jobs: Sequence[tuple[int, str]], now: datetime
) -> None:
    """Activate these jobs (number, queue), as if their input had been transferred to their queue."""
    if jobs:
        write_sorted(connection, catalogue, ActivationSplit(tuple(jobs), ()), now)


def start_jobs(connection: sa.Connection, names: Names, jobs: Sequence[int], now: datetime) -> None:
    """Start jobs, as if pilots had taken them."""
    if jobs:
        connection.execute(sa.text(names.sql(_START)), {"jobs": list(jobs), "now": naive(now)})


def report_ends(connection: sa.Connection, names: Names, ends: Sequence[tuple[int, bool]], now: datetime) -> None:
    """Report jobs as ended, as pilots do; the agent ``completion`` continues with them."""
    if ends:
        values: dict[str, Any] = {"jobs": [job for job, _ in ends], "failed": [failed for _, failed in ends]}
        connection.execute(sa.text(names.sql(_END)), values | {"now": naive(now)})


def switch_queues(connection: sa.Connection, names: Names, switched: Sequence[tuple[str, str]], now: datetime) -> None:
    """Set the status of queues, recorded like the changes of a feed."""
    rows = []
    for queue, status in switched:
        values = {"queue": queue, "status": status}
        before = connection.execute(sa.text(names.sql(_SWITCH)), values).scalar()
        if before is not None:
            rows.append(RowChange((queue,), "changed", {"status": (before, status)}))
    if rows:
        changes = TableChanges("schedconfig_json", tuple(rows), 0)
        run = FeedRun(FEED, False, now, "done", (), {changes.table: changes.counts()}, {})
        write_run(connection, run, [changes])
