"""A SubmitPool with the queues that match."""

from __future__ import annotations

from datetime import datetime

from broker.pools.model.description import RequirementRefused
from broker.pools.model.eligibility import match_pools
from broker.pools.model.requirement import parse_canonical
from broker.pools.statements import resource_versions
from broker.pools.statements.pool_reads import PoolQueue, PoolRecord, all_pools, one_pool, queues_of_pool
from broker.pools.statements.resource_versions import BadResources
from broker.store.query_context import NothingFound, QueryContext, ResponseModel


class _Moment(ResponseModel):
    """The instant comes first in an answer."""

    now: datetime


class PoolAnswer(PoolRecord, _Moment):
    """A SubmitPool with the queues that match it.

    Attributes:
        rejected: why other queues do not match, by the resources in force; null if none are published, or one of the
            two cannot be read.
    """

    waiting_jobs: int
    tasks: int
    queues: tuple[PoolQueue, ...]
    rejected: dict[str, str] | None = None


def pool_answer(query: QueryContext, pool_id: str, *, with_rejected: bool = False) -> PoolAnswer:
    """A pool by its identifier.

    Args:
        query: what is read, and when.
        pool_id: its identifier.
        with_rejected: whether to match the pool against the resources in force, for the queues that do not match.

    Raises:
        NothingFound: there is no such pool; the error names the nearest identifiers.
    """
    pool = one_pool(query.connection, pool_id)
    if pool is None:
        known = [line.pool_id for line in all_pools(query.connection)]
        raise NothingFound("pool", pool_id, "broker.submit_pools", known, "see broker pool list")
    queues = tuple(queues_of_pool(query.connection, pool_id))
    fields = pool.model_dump(exclude={"queue_count"})
    rejected = _rejected(query, pool) if with_rejected else None
    return PoolAnswer(now=query.now, **fields, queues=queues, rejected=rejected)


def _rejected(query: QueryContext, pool: PoolRecord) -> dict[str, str] | None:
    try:
        version = resource_versions.current(query.connection)
        if version is None:
            return None
        eligibility = match_pools([parse_canonical(pool.canonical)], version.content.resources)
    except (BadResources, RequirementRefused):
        return None
    return {str(queue): reason for queue, reason in eligibility.reasons(0).items()}
