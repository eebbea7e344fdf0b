"""Demand at a queue: jobs that wait for pilots, and jobs that the last cycle placed there."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import Names
from broker.store.query_context import ResponseModel

_COUNT_DEMAND = """
    SELECT j.resource_type, j.gshare, q.pool_id AS pool,
           count(*) FILTER (WHERE j.jobstatus = 'activated') AS waiting_for_pilots,
           count(*) FILTER (WHERE j.jobstatus IN ('defined', 'assigned')) AS waiting_for_input,
           coalesce(sum(greatest(j.corecount, 1)) FILTER (WHERE j.jobstatus = 'activated'), 0) AS waiting_cores,
           count(*) FILTER (WHERE j.creationtime >= CAST(:since AS timestamp)) AS placed_in_last_cycle
    FROM (SELECT pandaid, resource_type, gshare, jobstatus, corecount, creationtime, computingsite
          FROM {panda}.jobsactive4 WHERE computingsite = :queue AND jobstatus = 'activated'
          UNION ALL
          SELECT pandaid, resource_type, gshare, jobstatus, corecount, creationtime, computingsite
          FROM {panda}.jobsdefined4 WHERE computingsite = :queue AND jobstatus IN ('defined', 'assigned')) AS j
    LEFT JOIN (SELECT waiting.pandaid, task_queue.pool_id FROM broker.task_queues AS task_queue
               JOIN broker.waiting_jobs AS waiting ON waiting.task_queue = task_queue.id
               WHERE task_queue.panda_queue = :queue AND task_queue.pool_id IS NOT NULL) AS q USING (pandaid)
    GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""
_LAST_CYCLE = """
    SELECT max(started_at) FROM broker.agent_runs
    WHERE agent = ANY(:brokerages) AND outcome = 'done' AND (counts ->> 'jobs')::bigint > 0"""


class DemandLine(ResponseModel):
    """Jobs of one resource type, share and pool.

    Attributes:
        resource_type: PanDA's name of the slot.
        gshare: global share of the jobs.
        pool: required SubmitPool; null if there is none.
        waiting_for_pilots: number of activated jobs.
        waiting_for_input: number of defined or assigned jobs.
        waiting_cores: cores of the activated jobs.
        placed_in_last_cycle: number of jobs created by the last cycle that placed any.
    """

    resource_type: str | None
    gshare: str | None
    pool: str | None
    waiting_for_pilots: int
    waiting_for_input: int
    waiting_cores: int
    placed_in_last_cycle: int


def last_cycle(connection: sa.Connection, brokerages: list[str]) -> datetime | None:
    """Return when the last cycle that placed jobs began; None if there was none."""
    started_at: datetime | None = connection.execute(sa.text(_LAST_CYCLE), {"brokerages": brokerages}).scalar()
    return started_at


def demand_of(connection: sa.Connection, names: Names, queue: str, since: datetime | None) -> list[DemandLine]:
    """The demand of a queue; jobs made since ``since`` (aware) were placed in the last cycle."""
    values = {"queue": queue, "since": None if since is None else naive(since)}
    return [DemandLine(**row._mapping) for row in connection.execute(sa.text(names.sql(_COUNT_DEMAND)), values)]
