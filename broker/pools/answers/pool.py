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
        rejected: why other queues do not match, by the resources in force; null if that is unknown.
        unknown_because: why it is unknown: no resources are published, or what cannot be read; null if it is known.
    """

    waiting_jobs: int
    tasks: int
    queues: tuple[PoolQueue, ...]
    rejected: dict[str, str] | None = None
    unknown_because: str | None = None


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
    fields = pool.model_dump(exclude={"queue_count"})
    rejected, unknown_because = _rejected(query, pool)
    return PoolAnswer(now=query.now, **fields, queues=queues, rejected=rejected, unknown_because=unknown_because)


def _rejected(query: QueryContext, pool: PoolRecord) -> tuple[dict[str, str] | None, str | None]:
    """Why queues are not eligible, by their names; or None, and why that is unknown."""
    try:
        version = resource_versions.current(query.connection)
        if version is None:
            return None, "no resources are published"
        eligibility = match_pools([parse_canonical(pool.canonical)], version.content.resources)
    except BadResources as error:
        return None, f"the resources cannot be read: {error}"
    except RequirementRefused as error:
        return None, f"the requirements of the pool cannot be read: {error}"
    return {str(queue): reason for queue, reason in eligibility.reasons(0).items()}, None
