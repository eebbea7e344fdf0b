"""The pilots that the submitter has sent, as rows of its own, as workers of a Harvester instance, and their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.pilots.model.submission import SentPilot
from broker.store.connection.tables import Names

_COLUMNS = "worker, panda_queue, resource_type, executor, native_id, state, planned_at, submitted_at"
_READ_ALIVE = """
SELECT COLUMNS FROM {broker}.submitted_pilots WHERE harvester_id = :harvester AND state <> 'ended'
ORDER BY worker""".replace("COLUMNS", _COLUMNS)
_SENT_SINCE = """
SELECT resource_type, count(*) FROM {broker}.submitted_pilots
WHERE harvester_id = :harvester AND panda_queue = :queue AND planned_at >= :since GROUP BY 1"""
_PLAN = """
INSERT INTO {broker}.submitted_pilots (harvester_id, panda_queue, resource_type, executor, state, planned_at)
SELECT :harvester, :queue, :resource_type, :executor, 'planned', :now FROM generate_series(1, :number)
RETURNING COLUMNS""".replace("COLUMNS", _COLUMNS)
_NOTE = """
UPDATE {broker}.submitted_pilots SET state = :state, native_id = coalesce(:native, native_id),
    submitted_at = CASE WHEN :state IN ('submitted', 'running') THEN coalesce(submitted_at, :now) ELSE submitted_at END,
    started_at = CASE WHEN :state = 'running' THEN coalesce(started_at, :now) ELSE started_at END,
    ended_at = CASE WHEN :state = 'ended' THEN CAST(:now AS timestamptz) END, outcome = :outcome, detail = :detail
WHERE worker = :worker AND state <> 'ended'"""
_SAVE_INSTANCE = """
INSERT INTO {panda}.harvester_instances (harvester_id, description, lastupdate, starttime)
VALUES (:harvester, 'gridbroker submitter', :now, :now)
ON CONFLICT (harvester_id) DO UPDATE SET lastupdate = excluded.lastupdate"""
_SAVE_WORKERS = """
INSERT INTO {panda}.harvester_workers AS known (harvesterid, workerid, lastupdate, status, batchid, computingsite,
    submittime, starttime, endtime, resourcetype, jobtype)
SELECT harvester_id, worker, :now,
    CASE state WHEN 'ended' THEN CASE outcome WHEN 'finished' THEN 'finished' WHEN 'failed' THEN 'failed'
        ELSE 'cancelled' END WHEN 'planned' THEN 'submitted' ELSE state END,
    native_id, panda_queue, submitted_at AT TIME ZONE 'UTC', started_at AT TIME ZONE 'UTC',
    ended_at AT TIME ZONE 'UTC', resource_type, 'managed'
FROM {broker}.submitted_pilots
WHERE harvester_id = :harvester AND (state <> 'ended' OR ended_at >= :since)
ON CONFLICT (harvesterid, workerid) DO UPDATE SET lastupdate = excluded.lastupdate, status = excluded.status,
    batchid = excluded.batchid, submittime = excluded.submittime,
    starttime = coalesce(known.starttime, excluded.starttime), endtime = excluded.endtime"""
_REMOVE_COUNTS = "DELETE FROM {panda}.harvester_worker_stats WHERE harvester_id = :harvester"
# A queue without pilots has its row too: it is known to have none.
_SAVE_COUNTS = """
INSERT INTO {panda}.harvester_worker_stats (harvester_id, computingsite, resourcetype, status, n_workers, lastupdate,
    jobtype)
SELECT :harvester, queue.name, coalesce(pilot.resource_type, 'SCORE'), coalesce(pilot.status, 'submitted'),
    count(pilot.worker), :now, 'managed'
FROM unnest(CAST(:queues AS text[])) AS queue (name)
LEFT JOIN (
    SELECT panda_queue, resource_type, worker, CASE state WHEN 'running' THEN state ELSE 'submitted' END AS status
    FROM {broker}.submitted_pilots WHERE harvester_id = :harvester AND state <> 'ended') AS pilot
    ON pilot.panda_queue = queue.name
GROUP BY 2, 3, 4"""
_READ_STATUSES = """
SELECT workerid, pilotstatus FROM {panda}.harvester_workers
WHERE harvesterid = :harvester AND workerid = ANY(:workers)"""
# Jobs that a pilot took and that have been silent since its batch job had been gone for a while.
_READ_LOST = """
SELECT job.pandaid, job.jobstatus, job.modificationtime, job.computingsite, job.jeditaskid, pilot.worker,
    extract(epoch FROM :now - job.modificationtime)::float8 AS silent_s
FROM {broker}.submitted_pilots AS pilot
JOIN {panda}.harvester_rel_jobs_workers AS took
    ON took.harvesterid = pilot.harvester_id AND took.workerid = pilot.worker
JOIN {panda}.jobsactive4 AS job ON job.pandaid = took.pandaid
WHERE pilot.harvester_id = :harvester AND pilot.state = 'ended' AND pilot.ended_at <= :before
  AND pilot.ended_at >= :since AND job.modificationtime <= :silent_since
  AND job.jobstatus IN ('sent', 'starting', 'running')
ORDER BY job.pandaid LIMIT :most"""


def read_alive(connection: sa.Connection, names: Names, harvester: str) -> list[SentPilot]:
    """The pilots of an instance that have not ended, as far as is known."""
    rows = connection.execute(sa.text(names.sql(_READ_ALIVE)), {"harvester": harvester})
    return [SentPilot(*row) for row in rows]


def sent_since(connection: sa.Connection, names: Names, harvester: str, queue: str, since: datetime) -> dict[str, int]:
    """How many pilots were sent to a queue since an instant, by resource type, whether they have ended or not."""
    values = {"harvester": harvester, "queue": queue, "since": since}
    return {row[0]: row[1] for row in connection.execute(sa.text(names.sql(_SENT_SINCE)), values)}


def plan(
    connection: sa.Connection,
    names: Names,
    harvester: str,
    place: tuple[str, str, str],
    number: int,
    now: datetime,
) -> list[SentPilot]:
    """Record that pilots are about to be submitted; ``place``: queue, resource type, executor."""
    queue, resource_type, executor = place
    values = {"harvester": harvester, "queue": queue, "resource_type": resource_type, "executor": executor}
    rows = connection.execute(sa.text(names.sql(_PLAN)), {**values, "number": number, "now": now})
    return [SentPilot(*row) for row in rows]


def note(
    connection: sa.Connection,
    names: Names,
    worker: int,
    state: str,
    now: datetime,
    *,
    native: str | None = None,
    outcome: str | None = None,
    detail: str | None = None,
) -> None:
    """Record the current state of a pilot; one that has ended stays so."""
    values: dict[str, Any] = {"worker": worker, "state": state, "native": native, "outcome": outcome, "now": now}
    connection.execute(sa.text(names.sql(_NOTE)), {**values, "detail": None if detail is None else detail[:500]})


def report_workers(
    connection: sa.Connection, names: Names, harvester: str, queues: Iterable[str], now: datetime, since: datetime
) -> None:
    """Write the pilots as workers of a Harvester instance, with those that ended since ``since`` and the counts."""
    stamp = naive(now)
    connection.execute(sa.text(names.sql(_SAVE_INSTANCE)), {"harvester": harvester, "now": stamp})
    connection.execute(sa.text(names.sql(_SAVE_WORKERS)), {"harvester": harvester, "now": stamp, "since": since})
    connection.execute(sa.text(names.sql(_REMOVE_COUNTS)), {"harvester": harvester})
    values = {"harvester": harvester, "now": stamp, "queues": sorted(queues)}
    connection.execute(sa.text(names.sql(_SAVE_COUNTS)), values)


def pilot_statuses(
    connection: sa.Connection, names: Names, harvester: str, workers: Sequence[int]
) -> dict[int, str | None]:
    """The status that pilots have reported, by worker number."""
    values = {"harvester": harvester, "workers": list(workers)}
    return {row[0]: row[1] for row in connection.execute(sa.text(names.sql(_READ_STATUSES)), values)}


def read_lost(
    connection: sa.Connection, names: Names, harvester: str, now: datetime, before: datetime, since: datetime
) -> list[Any]:
    """At most 1000 jobs whose pilot ended between ``since`` and ``before``, and which are silent since ``before``."""
    values = {"harvester": harvester, "before": before, "since": since, "most": 1000}
    stamps = {name: naive(one) for name, one in (("now", now), ("silent_since", before))}
    return list(connection.execute(sa.text(names.sql(_READ_LOST)), values | stamps))
