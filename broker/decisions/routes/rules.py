"""The HTTP API about the rules of a brokerage."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, query_context
from broker.decisions.answers.reason_codes import rules
from broker.service.answers.models import Rules

router = guarded_router(tag="grid")
InPath = Annotated[str, Path(min_length=1, max_length=200)]


@router.get("/rules/{brokerage}", response_model=Rules)
@allow(READ)
def list_rules(request: Request, api: State, brokerage: InPath, at: At = None) -> Response:
    """List the rules of a brokerage in order, with their rejections in 24 h."""
    with query_context(api, at) as query:
        rule_list = rules(query, brokerage)
    return answer(request, rule_list, items="rules")
