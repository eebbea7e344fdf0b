"""The rows of ``broker.job_status_reports``: what running jobs told last, and what moving them would lose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.formats import job_status
from broker.formats.job_status import STALE_AFTER_S, Figures, JobStatus

_SAVE = sa.text("""
    INSERT INTO broker.job_status_reports (pandaid, reported_at, allocated_cpu, record)
    VALUES (:pandaid, :reported_at, :allocated_cpu, CAST(:record AS jsonb))
    ON CONFLICT (pandaid) DO UPDATE SET
        reported_at = excluded.reported_at, allocated_cpu = excluded.allocated_cpu, record = excluded.record
    WHERE job_status_reports.reported_at <= excluded.reported_at""")
_READ = sa.text("""
    SELECT pandaid, reported_at, allocated_cpu, record FROM broker.job_status_reports
    WHERE pandaid = ANY(:pandaids) AND reported_at <= :now""")


def save(connection: sa.Connection, pandaid: int, status: JobStatus, allocated_cpu: int | None, now: datetime) -> bool:
    """Keep the record of a job in place of its last one; False when a newer one is there."""
    values = {
        "pandaid": pandaid,
        "reported_at": now,
        "allocated_cpu": allocated_cpu,
        "record": json.dumps(status.by_key()),
    }
    return bool(connection.execute(_SAVE, values).rowcount)


def figures(connection: sa.Connection, pandaids: Sequence[int], now: datetime) -> dict[int, Figures]:
    """The figures at ``now`` of those of the jobs that reported; of an old report only the absolute times count."""
    found = {}
    for row in connection.execute(_READ, {"pandaids": list(pandaids), "now": now}):
        files = {key: str(value).encode() for key, value in dict(row.record).items()}
        stale = (now - row.reported_at).total_seconds() > STALE_AFTER_S
        status = job_status.parse(files, stale=stale)
        found[row.pandaid] = job_status.reckon(status, row.allocated_cpu, int(now.timestamp())).result
    return found
