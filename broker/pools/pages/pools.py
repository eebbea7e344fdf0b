"""Pages of SubmitPools: the list, and each with the queues that meet it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import State, query_context
from broker.pools.answers.pool import pool_answer
from broker.pools.statements.pool_reads import PoolLine, all_pools
from broker.web.rendering import page_router, show

router = page_router(tag="pools")
InPath = Annotated[str, Path(min_length=1, max_length=200)]


class Pools(BaseModel):
    """All SubmitPools on record, those for which most jobs wait first."""

    pools: list[PoolLine]


@router.get("/pools")
@allow(READ)
def list_pools(request: Request, api: State) -> Response:
    """All SubmitPools: how many queues meet each, and how many jobs wait."""
    with query_context(api) as query:
        lines = sorted(all_pools(query.connection), key=lambda line: (-line.waiting_jobs, line.pool_id))
    return show(request, "pools/pools", Pools(pools=lines), title="Pools", items="pools", now=query.now)


@router.get("/pools/{pool}")
@allow(READ)
def one_pool(request: Request, api: State, pool: InPath) -> Response:
    """A SubmitPool with the queues that meet it."""
    with query_context(api) as query:
        pool_details = pool_answer(query, pool)
    return show(request, "pools/pool", pool_details, title=f"Pool {pool_details.pool_id}", items="queues")
