"""Reads of SubmitPools: those of a queue, all of them, and one with its queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.store.query_context import ResponseModel

_READ_POOLS_OF_QUEUE = sa.text("""
    SELECT pool.pool_id FROM broker.resource_queues AS known
    JOIN broker.submit_pool_links AS link ON link.queue = known.number
    JOIN broker.submit_pools AS pool ON pool.number = link.pool
    WHERE known.site = :site AND known.ce = :ce AND known.queue = :queue
      AND (CAST(:vo AS text) IS NULL OR pool.vo = lower(:vo))""")
_READ_POOLS = """
    SELECT pool.pool_id, pool.vo, pool.canonical, pool.created_at, pool.last_used_at, pool.refreshed_at,
           pool.queue_count, coalesce(waiting.jobs, 0) AS waiting_jobs, coalesce(asked.tasks, 0) AS tasks
    FROM broker.submit_pools AS pool
    LEFT JOIN (SELECT queue.pool_id, count(*) AS jobs FROM broker.waiting_jobs AS job
               JOIN broker.task_queues AS queue ON queue.id = job.task_queue GROUP BY 1) AS waiting USING (pool_id)
    LEFT JOIN (SELECT pool_id, count(*) AS tasks FROM broker.task_requirements GROUP BY 1) AS asked USING (pool_id)
    {where} ORDER BY pool.pool_id"""
_READ_ALL_POOLS = sa.text(_READ_POOLS.format(where=""))
_READ_POOL = sa.text(_READ_POOLS.format(where="WHERE pool.pool_id = :pool_id"))
_READ_QUEUES_OF_POOL = sa.text("""
    SELECT mapped.site, mapped.ce, mapped.queue, coalesce(known.panda_queue, mapped.queue) AS panda_queue,
           mapped.first_seen_at, mapped.confirmed_at
    FROM broker.submit_pool_queues AS mapped JOIN broker.resource_queues AS known USING (site, ce, queue)
    WHERE mapped.pool_id = :pool_id""")


#: With more identifiers a CE may refuse the argument; the pilot then requests them itself.
MOST_IN_ARGUMENTS = 100


class PoolRecord(ResponseModel):
    """What is stored of a SubmitPool.

    Attributes:
        pool_id: identifier.
        vo: virtual organisation, lower case.
        canonical: its definition.
        created_at: when it was registered.
        last_used_at: when a job with it last began or ceased to wait.
        refreshed_at: when its queues were last found out; None: never.
    """

    pool_id: str
    vo: str
    canonical: str
    created_at: datetime
    last_used_at: datetime
    refreshed_at: datetime | None


class PoolLine(PoolRecord):
    """A SubmitPool on record; see the reference of SubmitPools for its definition.

    Attributes:
        queue_count: number of queues that match it.
        waiting_jobs: number of activated jobs that wait for a pilot.
        tasks: number of tasks that request it.
    """

    queue_count: int
    waiting_jobs: int
    tasks: int


class PoolQueue(ResponseModel):
    """A queue that matches a pool, with its PanDA queue."""

    site: str
    ce: str
    queue: str
    panda_queue: str
    first_seen_at: datetime
    confirmed_at: datetime

    @property
    def name(self) -> str:
        """The three names with slashes."""
        return f"{self.site}/{self.ce}/{self.queue}"


def get_submit_pools_for_queue(
    connection: sa.Connection, site: str, ce: str, queue: str, vo: str | None = None
) -> tuple[str, ...]:
    """The identifiers of the pools that are mapped to a queue, sorted; empty for an unknown queue.

    Args:
        connection: any connection.
        site: site of the queue.
        ce: CE of the queue.
        queue: name of the queue.
        vo: only pools of this VO; all without it.
    """
    values = {"site": site, "ce": ce, "queue": queue, "vo": vo}
    return tuple(sorted(connection.execute(_READ_POOLS_OF_QUEUE, values).scalars()))


def for_arguments(pools: Sequence[str]) -> tuple[str, ...]:
    """The pools to pass in the arguments of a pilot that is sent to the queue; empty if the list is too long."""
    return tuple(pools) if len(pools) <= MOST_IN_ARGUMENTS else ()


def all_pools(connection: sa.Connection) -> list[PoolLine]:
    """All pools by identifier."""
    return [PoolLine(**row._mapping) for row in connection.execute(_READ_ALL_POOLS)]


def one_pool(connection: sa.Connection, pool_id: str) -> PoolLine | None:
    """One pool; None if it is not on record."""
    row = connection.execute(_READ_POOL, {"pool_id": pool_id}).one_or_none()
    return None if row is None else PoolLine(**row._mapping)


def queues_of_pool(connection: sa.Connection, pool_id: str) -> list[PoolQueue]:
    """The queues that are eligible for a pool, by name."""
    queues = [PoolQueue(**row._mapping) for row in connection.execute(_READ_QUEUES_OF_POOL, {"pool_id": pool_id})]
    return sorted(queues, key=lambda queue: (queue.site, queue.ce, queue.queue))
