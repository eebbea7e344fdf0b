"""The HTTP API for operators: values tried on a share of the tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import OPERATE, READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, slice_of
from broker.api.state import State, Who, editor, moment
from broker.tuning.answers import canaries
from broker.tuning.answers.canaries import MOST_MOVED, CanaryAnswer, LimitedChange, reason_within

router = guarded_router(tag="operations")

LONGEST_REASON = 500
LONGEST_S = 3650 * 86400.0
Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*\S[^\x00]*$")]
Vo = Annotated[str | None, Field(min_length=1, max_length=32)]
QueueName = Annotated[str, Path(max_length=200, description="Name of the PanDA queue.")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewCanary(_Body):
    """Values to try on a share of the tasks, the reason, and the duration in seconds."""

    values: dict[str, Any] = Field(min_length=1, max_length=50)
    share: float = Field(gt=0, lt=1)
    for_s: float = Field(gt=0, le=LONGEST_S)
    reason: Reason
    vo: Vo = None
    may_move: int | None = Field(
        default=None,
        ge=0,
        le=MOST_MOVED,
        description="Maximum number of jobs of those tasks that may move, as counted by the preview of these values "
        "within the last hour (409).",
    )


@router.get("/canaries", response_model=Page[CanaryAnswer])
@allow(READ)
def list_canaries(request: Request, api: State, after: After = None, limit: Limit = 10) -> Response:
    """List the values tried on a share of the tasks and their outcomes, newest first."""
    return answer(request, slice_of(canaries.tried(api.database, moment(api)), after, limit))


@router.post("/canaries", response_model=CanaryAnswer, status_code=201)
@allow(OPERATE)
def start_canary(request: Request, api: State, who: Who, body: NewCanary) -> Response:
    """Try values on a share of the tasks; it ends by itself."""
    now = moment(api)
    span = (now, now + timedelta(seconds=body.for_s))
    proposals = canaries.proposals_of(body.values, body.vo, api.database.names.vo)
    change = LimitedChange(proposals, body.may_move, editor(who), body.reason, body.share)
    reason = reason_within(api.database, change, now)
    canary = canaries.start(api.database, proposals, body.share, span, editor=editor(who), reason=reason)
    return answer(request, canary, status=201)


@router.post("/canaries:stop", response_model=CanaryAnswer)
@allow(OPERATE)
def stop_canary(request: Request, api: State) -> Response:
    """Stop the running canary."""
    return answer(request, canaries.stop(api.database, moment(api)))
