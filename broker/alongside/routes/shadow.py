"""The HTTP API of shadow mode and its gate: our decisions beside what JEDI did."""

from __future__ import annotations

import time
from datetime import UTC, timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import DECIDE
from broker.alongside.answers.gate import doctor_problems, gate, gate_file
from broker.alongside.answers.shadow import shadow
from broker.alongside.answers.shadow_models import Gate, Shadow
from broker.alongside.model.gate_file import LONGEST_DAYS, GateFile
from broker.api.deciding import decided
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import ApiState, At, Name, State, query_context
from broker.brokerages.registry import offered
from broker.store.query_context import Proceed, known_name

router = guarded_router(tag="alongside")

LastHours = Annotated[
    float,
    Query(gt=0, le=24 * LONGEST_DAYS, allow_inf_nan=False, description="Length of the compared period, in hours."),
]
MaxAge = Annotated[
    float,
    Query(gt=0, le=24 * LONGEST_DAYS, allow_inf_nan=False, description="Maximum age of a compared decision, in hours."),
]


@router.get("/shadow", response_model=Shadow)
@allow(DECIDE)
async def get_shadow(
    request: Request,
    api: State,
    last_h: LastHours = 24.0,
    max_age_h: MaxAge = 2.0,
    brokerage: Name | None = None,
    at: At = None,
) -> Response:
    """Measure how far our decisions agree with JEDI's, and which rules cause the differences."""

    def work(proceed: Proceed) -> Response:
        name = None if brokerage is None else known_name("brokerage", brokerage, offered(), "brokerage")
        with query_context(api, at) as query:
            comparison = shadow(query, query.now - timedelta(hours=last_h), timedelta(hours=max_age_h), name)
        return answer(request, comparison)

    return await decided(request, api, work)


@router.get("/shadow/gate", response_model=Gate)
@allow(DECIDE)
async def get_gate(request: Request, api: State, at: At = None) -> Response:
    """Report whether every criterion of the installation's ``gate.yaml`` holds."""
    return await decided(request, api, lambda proceed: answer(request, judged(api, at)))


def judged(api: ApiState, at: At = None, read: tuple[GateFile, str] | None = None) -> Gate:
    """Return the verdict by the installation's ``gate.yaml``, ``read`` already or not; its folder is not revealed."""
    criteria, where = read or gate_file(None, api.folder)
    clean = criteria.doctor == "clean"
    now = api.now().astimezone(UTC)
    problems = doctor_problems(api.database, api.folder, now, api.steady_s, time.sleep) if clean else []
    with query_context(api, at) as query:
        return gate(query, criteria, Path(where).name, problems)
