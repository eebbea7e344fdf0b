"""A SubmitPool with the queues that match."""

from __future__ import annotations

from datetime import datetime

from broker.pools.statements.pool_reads import PoolQueue, PoolRecord, all_pools, one_pool, queues_of_pool
from broker.store.query_context import NothingFound, QueryContext, ResponseModel


class _Moment(ResponseModel):
    """The instant comes first in an answer."""

    now: datetime


class PoolAnswer(PoolRecord, _Moment):
    """A SubmitPool with the queues that match it."""

    waiting_jobs: int
    tasks: int
    queues: tuple[PoolQueue, ...]


def pool_answer(query: QueryContext, pool_id: str) -> PoolAnswer:
    """A pool by its identifier.

    Raises:
        NothingFound: there is no such pool; the error names the nearest identifiers.
    """
    pool = one_pool(query.connection, pool_id)
    if pool is None:
        known = [line.pool_id for line in all_pools(query.connection)]
        raise NothingFound("pool", pool_id, "broker.submit_pools", known, "see broker pool list")
    queues = tuple(queues_of_pool(query.connection, pool_id))
    return PoolAnswer(now=query.now, **pool.model_dump(exclude={"queue_count"}), queues=queues)
