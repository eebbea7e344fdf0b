"""The page ``/pools``: the list of SubmitPools."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import State, query_context
from broker.pools.statements.pool_reads import PoolLine, all_pools
from broker.web.rendering import page_router, show

router = page_router(tag="pools")


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
