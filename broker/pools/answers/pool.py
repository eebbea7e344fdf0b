"""A SubmitPool with the queues that match."""

from __future__ import annotations

from broker.pools.statements.pool_reads import all_pools, one_pool, queues_of_pool
from broker.service.answers.models import PoolAnswer, PoolQueue
from broker.store.query_context import Asking, NothingFound


def pool_answer(asking: Asking, pool_id: str) -> PoolAnswer:
    """A pool by its identifier.

    Raises:
        NothingFound: there is no such pool; the nearest identifiers are said.
    """
    found = one_pool(asking.connection, pool_id)
    if found is None:
        known = [one.pool_id for one in all_pools(asking.connection)]
        raise NothingFound("pool", pool_id, "broker.submit_pools", known, "see broker pool list")
    return PoolAnswer(
        now=asking.now,
        pool_id=found.pool_id,
        vo=found.vo,
        canonical=found.canonical,
        created_at=found.created_at,
        last_used_at=found.last_used_at,
        refreshed_at=found.refreshed_at,
        waiting_jobs=found.waiting_jobs,
        tasks=found.tasks,
        queues=tuple(
            PoolQueue(
                site=one.site,
                ce=one.ce,
                queue=one.queue,
                panda_queue=one.panda_queue,
                first_seen_at=one.first_seen_at,
                confirmed_at=one.confirmed_at,
            )
            for one in queues_of_pool(asking.connection, pool_id)
        ),
    )
