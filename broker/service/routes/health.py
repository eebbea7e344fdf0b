"""Health for probes, and the description of the API."""

from __future__ import annotations

from typing import Literal

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from broker import __version__
from broker.access.policies import FACTORY, OPEN
from broker.api.guarded_route import allow, guarded_router
from broker.api.health_checks import Check, health_checks_of
from broker.api.presenting import answer
from broker.api.state import State
from broker.service.routes.metrics import CONTENT_TYPE

router = guarded_router("", tag="health")


class Health(BaseModel):
    """The answer to a probe.

    Attributes:
        status: ``ok`` or ``failing``.
        version: version of the broker.
        checks: results of the checks.
    """

    status: Literal["ok", "failing"]
    version: str
    checks: list[Check]


@router.get("/health/live", response_model=Health)
@allow(OPEN)
async def live(request: Request) -> Response:
    """Report whether the process answers."""
    return answer(request, Health(status="ok", version=__version__, checks=[]))


@router.get("/health/startup", response_model=Health, responses={503: {"model": Health}})
@allow(OPEN)
async def startup(request: Request, api: State) -> Response:
    """Report whether the process has started: the database answers, and its schema matches this version."""
    checks = await health_checks_of(api).results()
    return _answer(request, [check for check in checks if check.name != "leader"])


@router.get("/health/ready", response_model=Health, responses={503: {"model": Health}})
@allow(OPEN)
async def ready(request: Request, api: State) -> Response:
    """Report whether answers are current: started, and some service has recently shown a sign of life."""
    return _answer(request, await health_checks_of(api).results())


@router.get("/api/v1/openapi.json", include_in_schema=False)
@allow(OPEN)
async def description(request: Request) -> Response:
    """Get the description of the API (OpenAPI 3.1)."""
    return answer(request, request.app.openapi())


@router.get("/metrics", response_class=PlainTextResponse)
@allow(FACTORY)
def metrics(api: State) -> Response:
    """Get metrics for Prometheus."""
    collector = api.parts["metrics"]
    return Response(collector.text(), media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


def _answer(request: Request, checks: list[Check]) -> Response:
    good = all(check.ok for check in checks)
    health = Health(status="ok" if good else "failing", version=__version__, checks=checks)
    return answer(request, health, status=200 if good else 503)
