"""The rows of ``broker.job_status_reports``: what running jobs reported last, and what moving them would lose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.formats.model import job_status
from broker.formats.model.job_status import STALE_AFTER_S, JobStatus, Stats
from broker.formats.model.vacate import RunningJob
from broker.store.connection.tables import Names, TableCatalogue

_SAVE_REPORT = sa.text("""
    INSERT INTO broker.job_status_reports (pandaid, reported_at, allocated_cpu, record)
    VALUES (:pandaid, :reported_at, :allocated_cpu, CAST(:record AS jsonb))
    ON CONFLICT (pandaid) DO UPDATE SET
        reported_at = excluded.reported_at, allocated_cpu = excluded.allocated_cpu, record = excluded.record
    WHERE job_status_reports.reported_at <= excluded.reported_at""")
_READ_REPORTS = sa.text("""
    SELECT pandaid, reported_at, allocated_cpu, record FROM broker.job_status_reports
    WHERE pandaid = ANY(:pandaids) AND reported_at <= :now""")

_JOB_COLUMNS = ("pandaid", "computingsite", "jobstatus", "produsername", "corecount", "actualcorecount", "starttime")
_READ_RUNNING_JOBS = """
    SELECT pandaid, produsername, corecount, actualcorecount,
        extract(epoch FROM nullif(starttime, '1970-01-01'))::float8 AS started
    FROM {jobs} AS j WHERE computingsite = :queue AND jobstatus = 'running' ORDER BY pandaid"""


def save(connection: sa.Connection, pandaid: int, status: JobStatus, allocated_cpu: int | None, now: datetime) -> bool:
    """Keep the record of a job in place of its last one; False if a newer one exists."""
    values = {
        "pandaid": pandaid,
        "reported_at": now,
        "allocated_cpu": allocated_cpu,
        "record": json.dumps(status.by_key()),
    }
    return bool(connection.execute(_SAVE_REPORT, values).rowcount)


def queue_of(connection: sa.Connection, names: Names, pandaid: int) -> str | None:
    """The queue of a job that waits or runs; None if there is no such job."""
    query = sa.text(
        names.sql("""
        SELECT computingsite FROM {panda}.jobsactive4 WHERE pandaid = :pandaid
        UNION ALL SELECT computingsite FROM {panda}.jobsdefined4 WHERE pandaid = :pandaid LIMIT 1""")
    )
    queue = connection.execute(query, {"pandaid": pandaid}).scalar()
    return None if queue is None else str(queue)


def stats(connection: sa.Connection, pandaids: Sequence[int], now: datetime) -> dict[int, Stats]:
    """The figures at ``now`` of the jobs that reported; in an old report only the absolute times count."""
    return {pandaid: known for pandaid, (_, known) in _reports(connection, pandaids, now).items()}


def running_jobs(
    connection: sa.Connection, catalogue: TableCatalogue, queue: str, now: datetime
) -> tuple[RunningJob, ...]:
    """The running jobs of a queue with what they reported last, by PandaID: what a drain of the queue chooses from.

    Cores are those in use, else those requested, else one. A job without a user counts as the only one of its user. In
    an old report only the absolute times count.
    """
    rows = connection.execute(
        sa.text(_READ_RUNNING_JOBS.format(jobs=catalogue.source("jobsactive4", _JOB_COLUMNS))), {"queue": queue}
    )
    jobs = {row.pandaid: row for row in rows}
    reported = _reports(connection, list(jobs), now)
    return tuple(_running(row, reported.get(pandaid)) for pandaid, row in jobs.items())


def _running(row: Any, reported: tuple[JobStatus, Stats] | None) -> RunningJob:
    status, known = reported or (JobStatus(), Stats(None, None, None, None))
    return RunningJob(
        id=str(row.pandaid),
        user=row.produsername or f"of job {row.pandaid}",
        cores=max(1, row.actualcorecount or row.corecount or 1),
        jobstart=None if row.started is None else int(row.started),
        kill_waste=known.kill_waste,
        draining_waste=known.draining_waste,
        remaining_time_max=known.remaining_time_max,
        remaining_time=known.remaining_time,
        priority=None if status.stale else status.priority_factor,
        can_postpone=None if status.stale else status.can_postpone_last_job,
    )


def _reports(connection: sa.Connection, pandaids: Sequence[int], now: datetime) -> dict[int, tuple[JobStatus, Stats]]:
    """Records and figures of the jobs that reported."""
    reports = {}
    for row in connection.execute(_READ_REPORTS, {"pandaids": list(pandaids), "now": now}):
        files = {key: str(value).encode() for key, value in dict(row.record).items()}
        stale = (now - row.reported_at).total_seconds() > STALE_AFTER_S
        status = job_status.parse(files, stale=stale)
        reports[row.pandaid] = (status, job_status.reckon(status, row.allocated_cpu, int(now.timestamp())).result)
    return reports
