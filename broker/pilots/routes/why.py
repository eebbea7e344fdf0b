"""Why a job waits and a pilot gets nothing: what fits, what misses by one condition, which limits hold."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import DECIDE, READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, State, query_context
from broker.matching.specs.job_reading import read_job
from broker.matching.specs.problems import SpecRefused
from broker.pilots.answers.why_job import WhyJob, why_job, why_specs
from broker.pilots.answers.why_node import WhyNode, why_node
from broker.pilots.routes.pilots import Name, PresentedPilot
from broker.store.connection.database import Database

router = guarded_router(tag="pilots")


class AskedSpecs(BaseModel):
    """A job that is not submitted.

    Attributes:
        job: the job, with ``requirements`` or ``matching_specs`` of ``matchspec/1``.
        vo: VO of the job.
        panda_queue: queue where it would wait; null for any.
    """

    model_config = ConfigDict(extra="forbid")

    job: dict[str, Any]
    vo: Annotated[str, Field(max_length=64)] = ""
    panda_queue: Name | None = None


@router.get("/jobs/{pandaid}/match", response_model=WhyJob)
@allow(READ)
def match_of_job(request: Request, api: State, pandaid: Annotated[int, Path(ge=1, le=LARGEST_ID)]) -> Response:
    """List nodes of the last 24 hours that fit an activated job or miss by one condition, and the limits that hold."""
    with query_context(api) as query:
        why = why_job(query, pandaid)
    return answer(request, why)


@router.post("/match/specs", response_model=WhyJob)
@allow(DECIDE)
def match_of_specs(request: Request, api: State, body: AskedSpecs) -> Response:
    """List nodes of the last 24 hours that would fit a job or miss by one condition; nothing is submitted."""
    try:
        specs = read_job(body.job, vo=body.vo)
    except SpecRefused as refused:
        raise Problem(422, "invalid_request", f"job: {refused}") from refused
    with query_context(api) as query:
        why = why_specs(query, specs, body.panda_queue)
    return answer(request, why)


@router.post("/match/nodes", response_model=WhyNode)
@allow(DECIDE)
def match_of_node(request: Request, api: State, body: PresentedPilot) -> Response:
    """List what fits a pilot, by tier, what misses by one condition, with its jobs, and which limits hold."""
    pilot = body.as_matched()
    with query_context(api) as query:
        why = why_node(Database.raw(query.connection), query.names, pilot, query.now)
    return answer(request, why)
