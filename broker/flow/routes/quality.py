"""The HTTP API of the quality of decisions: how far cycles are from the best placement of their jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, query_context
from broker.flow.answers.quality import MOST_CYCLES, Quality, quality
from broker.service.answers.alarms import load_limits

router = guarded_router(tag="decisions")


@router.get("/quality", response_model=Quality)
@allow(READ)
def get_quality(
    request: Request,
    api: State,
    at: At = None,
    brokerage: Annotated[str | None, Query(max_length=64)] = None,
    hours: Annotated[float, Query(gt=0, le=24 * 35)] = 24.0,
    cycles: Annotated[int, Query(ge=1, le=MOST_CYCLES)] = 200,
) -> Response:
    """Compare each cycle with the best placement of its jobs: regret by share, cause and rule, and what got worse."""
    with query_context(api, at) as query:
        limits = load_limits(query.config).drift
        report = quality(query, limits, hours=hours, brokerage=brokerage, cycles=cycles)
    return answer(request, report)
