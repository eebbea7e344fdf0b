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
from broker.api.metrics import CONTENT_TYPE
from broker.api.presenting import answer
from broker.api.state import State
from broker.errors import BrokerError
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.http import readiness
from broker.store.schema import migrate

router = guarded_router("", tag="health")

Code = Literal["ok", "database_unavailable", "schema", "no_leader"]


class Check(BaseModel):
    """One thing that was looked at.

    Attributes:
        name: ``database``, ``schema`` or ``leader``.
        ok: whether it is as it must be.
        code: what was found.
        age_s: seconds since the last sign of life, where there is one.
    """

    name: str
    ok: bool
    code: Code
    age_s: float | None = None


class Health(BaseModel):
    """What a probe is answered.

    Attributes:
        status: ``ok`` or ``failing``.
        version: of the broker.
        checks: what was looked at.
    """

    status: Literal["ok", "failing"]
    version: str
    checks: list[Check]


@router.get("/health/live", response_model=Health)
@allow(OPEN)
async def live(request: Request) -> Response:
    """Whether the process answers."""
    return answer(request, Health(status="ok", version=__version__, checks=[]))


@router.get("/health/startup", response_model=Health, responses={503: {"model": Health}})
@allow(OPEN)
def startup(request: Request, api: State) -> Response:
    """Whether the process has started: the database answers, and its schema is the one of this version."""
    return _answer(request, _database_checks(api))


@router.get("/health/ready", response_model=Health, responses={503: {"model": Health}})
@allow(OPEN)
def ready(request: Request, api: State) -> Response:
    """Whether answers are current: as at the start, and some service has given a sign of life lately."""
    checks = _database_checks(api)
    if all(check.ok for check in checks):
        with api.database.begin() as connection:
            age_s = readiness.newest_sign_of_life_s(connection)
        limit_s = readiness.SIGN_OF_LIFE_WITHIN_S
        led = age_s is not None and age_s <= limit_s
        checks.append(Check(name="leader", ok=led, code="ok" if led else "no_leader", age_s=age_s))
    return _answer(request, checks)


@router.get("/api/v1/openapi.json", include_in_schema=False)
@allow(OPEN)
async def description(request: Request) -> Response:
    """The description of the API (OpenAPI 3.1)."""
    return answer(request, request.app.openapi())


@router.get("/metrics", response_class=PlainTextResponse)
@allow(FACTORY)
def metrics(api: State) -> Response:
    """Metrics for Prometheus."""
    found = api.kept["metrics"]
    return Response(found.text(), media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


def _database_checks(api: State) -> list[Check]:
    try:
        migrate.check(api.database)
    except TRANSIENT_ERRORS:
        return [Check(name="database", ok=False, code="database_unavailable")]
    except BrokerError:
        return [Check(name="database", ok=True, code="ok"), Check(name="schema", ok=False, code="schema")]
    return [Check(name="database", ok=True, code="ok"), Check(name="schema", ok=True, code="ok")]


def _answer(request: Request, checks: list[Check]) -> Response:
    good = all(check.ok for check in checks)
    health = Health(status="ok" if good else "failing", version=__version__, checks=checks)
    return answer(request, health, status=200 if good else 503)
