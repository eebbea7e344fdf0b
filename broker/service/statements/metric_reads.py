"""The inputs of the metrics: small reads of aggregates, none of which scans decisions.

How jobs recently ended at each queue, and of how many tasks, comes from PanDA's archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.plain_rows import mappings
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.service import leases

SHORT_S = 300
"""Length of the buckets to read."""
STILL_WAITS_S = 3600
"""A chunk that no cycle has considered for this long no longer waits."""

_NEWEST_BUCKET = sa.text("SELECT max(bucket_at) FROM broker.reason_counts WHERE bucket_s = :bucket_s")
_COUNT_DECISIONS = sa.text("""
    SELECT bucket_at, brokerage, outcome, reason, sum(decisions)::bigint AS decisions, sum(jobs)::bigint AS jobs
    FROM broker.reason_counts WHERE bucket_s = :bucket_s AND bucket_at >= :since GROUP BY 1, 2, 3, 4""")
_READ_QUEUE_COUNTS = sa.text("""
    SELECT bucket_at, brokerage, counts FROM broker.queue_counts WHERE bucket_s = :bucket_s AND bucket_at >= :since""")
_READ_PENDING_CHUNKS = sa.text("""
    WITH newest AS (SELECT brokerage, max(last_seen_at) AS at FROM broker.chunk_states GROUP BY brokerage)
    SELECT brokerage, reason, count(*) AS chunks,
           extract(epoch FROM max(newest.at - waiting_since))::float8 AS oldest_s
    FROM broker.chunk_states JOIN newest USING (brokerage)
    WHERE outcome <> 'brokered' AND last_seen_at >= newest.at - make_interval(secs => :still_s)
    GROUP BY brokerage, reason""")
_READ_RUNS = sa.text("""
    SELECT id, agent, outcome, timings FROM broker.agent_runs
    WHERE finished_at IS NOT NULL AND id > :after ORDER BY id LIMIT 10000""")
_LAST_RUN = sa.text("SELECT coalesce(max(id), 0) FROM broker.agent_runs WHERE finished_at IS NOT NULL")
_READ_TUNING_IN_USE = sa.text("""
    SELECT DISTINCT ON (holder) holder, tuning FROM broker.agent_runs
    WHERE tuning IS NOT NULL AND started_at > clock_timestamp() - interval '1 day'
    ORDER BY holder, started_at DESC""")
_READ_SERVICES = sa.text("SELECT holder, extract(epoch FROM clock_timestamp() - seen_at)::float8 FROM broker.services")
_READ_STATES_OF_SOURCES = sa.text("""
    SELECT sources -> 'about' -> 'states', extract(epoch FROM clock_timestamp() - taken_at)::float8
    FROM broker.snapshots ORDER BY taken_at DESC LIMIT 1""")
_COUNT_JOBS_AT_QUEUES = """
    SELECT computingsite, jobstatus, count(*) FROM {panda}.jobsactive4
    WHERE computingsite = ANY(:queues) GROUP BY 1, 2"""
_READ_WANTED_PILOTS = sa.text("""
    SELECT panda_queue, resource_type, wanted::bigint FROM broker.pilot_demand WHERE wanted IS NOT NULL
    ORDER BY 1, 2""")
_COUNT_SUBMITTED_PILOTS = sa.text("""
    SELECT CASE state WHEN 'ended' THEN coalesce(outcome, 'ended') ELSE state END, state = 'ended', count(*)
    FROM broker.submitted_pilots WHERE state <> 'ended' OR ended_at > clock_timestamp() - interval '1 hour'
    GROUP BY 1, 2 ORDER BY 1""")


@dataclass(frozen=True)
class DecisionCount:
    """The number of decisions in a bucket, by outcome and reason."""

    bucket_at: datetime
    brokerage: str
    outcome: str
    reason: str
    decisions: int
    jobs: int


@dataclass(frozen=True)
class PendingCount:
    """Chunks that wait for one reason; the oldest has waited for ``oldest_s`` seconds."""

    brokerage: str
    reason: str
    chunks: int
    oldest_s: float | None


@dataclass(frozen=True)
class FinishedRun:
    """A cycle that has ended, with the seconds of its stages."""

    id: int
    agent: str
    outcome: str
    timings: dict[str, Any]


@dataclass(frozen=True)
class CurrentState:
    """The state at one instant.

    Attributes:
        pending: chunks that wait.
        leaders: lease, holder, and whether it is in force.
        tuning: version in use by process.
        services: seconds since the last heartbeat by process.
        sources: states of the sources of the newest snapshot.
        snapshot_age_s: age of that snapshot.
        queues: jobs by queue and status, for the requested queues.
        pilots: new pilots wanted, by queue and resource type, of all queues.
        submitted: pilots of the submitter: state, or the outcome of those that ended in the last hour, whether they
            ended, and how many.
    """

    pending: Sequence[PendingCount]
    leaders: Sequence[tuple[str, str, bool]]
    tuning: Sequence[tuple[str, int]]
    services: Sequence[tuple[str, float]]
    sources: Sequence[dict[str, Any]]
    snapshot_age_s: float | None
    queues: Sequence[tuple[str, str, int]]
    pilots: Sequence[tuple[str, str, int]] = ()
    submitted: Sequence[tuple[str, bool, int]] = ()


def recent_decisions(connection: sa.Connection, lookback: timedelta) -> list[DecisionCount]:
    """Return the counts of the newest buckets, to which cycles may still add."""
    since = _since(connection, lookback)
    if since is None:
        return []
    rows = connection.execute(_COUNT_DECISIONS, {"bucket_s": SHORT_S, "since": since})
    return [DecisionCount(**row._mapping) for row in rows]


def recent_queue_counts(connection: sa.Connection, lookback: timedelta) -> list[tuple[datetime, str, bytes]]:
    """Return the packed counts by queue of the newest buckets."""
    since = _since(connection, lookback)
    if since is None:
        return []
    rows = connection.execute(_READ_QUEUE_COUNTS, {"bucket_s": SHORT_S, "since": since})
    return [(row[0], row[1], bytes(row[2])) for row in rows]


def finished_after(connection: sa.Connection, run: int) -> list[FinishedRun]:
    """Return the cycles that ended after a run."""
    rows = connection.execute(_READ_RUNS, {"after": run})
    return [FinishedRun(row.id, row.agent, row.outcome, row.timings or {}) for row in rows]


def last_finished(connection: sa.Connection) -> int:
    """Return the newest run that has ended; 0 if there is none."""
    return int(connection.execute(_LAST_RUN).scalar_one())


def current_state(connection: sa.Connection, names: Names, queues: Sequence[str]) -> CurrentState:
    """Return the current state."""
    newest = connection.execute(_READ_STATES_OF_SOURCES).one_or_none()
    job_counts = []
    if queues:
        rows = connection.execute(sa.text(names.sql(_COUNT_JOBS_AT_QUEUES)), {"queues": list(queues)})
        job_counts = [(str(row[0]), str(row[1]), int(row[2])) for row in rows]
    return CurrentState(
        [PendingCount(**row._mapping) for row in connection.execute(_READ_PENDING_CHUNKS, {"still_s": STILL_WAITS_S})],
        [(row.name, row.holder, row.is_in_force) for row in leases.in_use(leases.find_all(connection))],
        [(row[0] or "", row[1]) for row in connection.execute(_READ_TUNING_IN_USE)],
        [(row[0], row[1]) for row in connection.execute(_READ_SERVICES)],
        [] if newest is None else (newest[0] or []),
        None if newest is None else float(newest[1]),
        job_counts,
        [(row[0], row[1], row[2]) for row in connection.execute(_READ_WANTED_PILOTS)],
        [(row[0], row[1], row[2]) for row in connection.execute(_COUNT_SUBMITTED_PILOTS)],
    )


def _since(connection: sa.Connection, lookback: timedelta) -> datetime | None:
    newest: datetime | None = connection.execute(_NEWEST_BUCKET, {"bucket_s": SHORT_S}).scalar()
    return None if newest is None else newest - lookback


_COLUMNS = ("computingsite", "jeditaskid", "jobstatus", "modificationtime", "endtime")
_COUNT_ENDED_JOBS = """
    SELECT computingsite AS queue,
           count(*) FILTER (WHERE jobstatus = 'failed') AS failed,
           count(*) FILTER (WHERE jobstatus = 'finished') AS finished,
           count(DISTINCT jeditaskid) FILTER (WHERE jobstatus = 'failed') AS tasks_failed,
           count(DISTINCT jeditaskid) AS tasks,
           min(coalesce(endtime, modificationtime)) FILTER (WHERE jobstatus = 'failed') AS first_failed
    FROM {archive} AS j
    WHERE jobstatus IN ('failed', 'finished') AND modificationtime > :since AND modificationtime <= :until
      AND computingsite IS NOT NULL
    GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True)
class EndedJobs:
    """Jobs that ended at a queue: how many failed and finished, and of how many tasks."""

    queue: str
    failed: int
    finished: int
    tasks_failed: int
    tasks: int
    first_failed: datetime | None


def ended_jobs(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime
) -> list[EndedJobs]:
    """Return the jobs that ended between two instants (aware), by queue. PanDA's columns store UTC without a zone."""
    query = sa.text(_COUNT_ENDED_JOBS.format(archive=catalogue.source("jobsarchived4", _COLUMNS)))
    values = {"since": naive(since), "until": naive(until)}
    return [_row(row) for row in mappings(connection, query, values)]


def _row(row: dict[str, Any]) -> EndedJobs:
    first = row["first_failed"]
    return EndedJobs(**{**row, "first_failed": None if first is None else first.replace(tzinfo=UTC)})
