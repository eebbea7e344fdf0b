"""The HTTP API of pilot factories: the SubmitPools that a queue may serve, and all of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import FACTORY
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, slice_of
from broker.api.state import State
from broker.pools.statements import pool_reads
from broker.pools.statements.pool_reads import PoolLine

router = guarded_router(tag="factories")

Name = Annotated[str, Query(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class PoolsOfQueue(BaseModel):
    """The pools that a queue may serve.

    Attributes:
        pools: identifiers of the pools.
        for_arguments: pools to put into the arguments of a pilot; empty if there are too many: the pilot then requests
            them itself.
    """

    pools: list[str]
    for_arguments: list[str]


@router.get("/pools", response_model=PoolsOfQueue)
@allow(FACTORY)
def pools_of_queue(request: Request, api: State, site: Name, ce: Name, queue: Name, vo: Name | None = None) -> Response:
    """List the SubmitPools that a queue matches now."""
    with api.database.begin() as connection:
        pools = pool_reads.get_submit_pools_for_queue(connection, site, ce, queue, vo)
    return answer(request, PoolsOfQueue(pools=list(pools), for_arguments=list(pool_reads.for_arguments(pools))))


@router.get("/submit-pools", response_model=Page[PoolLine])
@allow(FACTORY)
def list_pools(request: Request, api: State, after: After = None, limit: Limit = 100) -> Response:
    """List all SubmitPools."""
    with api.database.begin() as connection:
        pools = pool_reads.all_pools(connection)
    return answer(request, slice_of(pools, after, limit))
