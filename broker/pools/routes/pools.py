"""The HTTP API of one SubmitPool, for people."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, query_context
from broker.pools.answers.pool import PoolAnswer, pool_answer

router = guarded_router(tag="grid")
InPath = Annotated[str, Path(min_length=1, max_length=200)]


@router.get("/pools/{pool}", response_model=PoolAnswer)
@allow(READ)
def get_pool(request: Request, api: State, pool: InPath, at: At = None) -> Response:
    """Get a SubmitPool with the queues that match it."""
    with query_context(api, at) as query:
        details = pool_answer(query, pool)
    return answer(request, details)
