"""Making the application: state, routers, the envelope, problems, the description."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from broker import __version__
from broker.api.configuration import ApiConfiguration
from broker.api.description import describe
from broker.api.direct_routes import DirectRoutes
from broker.api.envelope import Envelope, Observe
from broker.api.guarded_route import refusal
from broker.api.host_names import Hosts
from broker.api.local_bearer import LocalBearer
from broker.api.local_token import LocalToken
from broker.api.packing import Packing
from broker.api.rates import RateLimiter
from broker.api.state import ApiState, Identify
from broker.api.upkeep import upkeep
from broker.feature import routes
from broker.service.routes.metrics import BrokerMetrics
from broker.store.connection.database import Database

TITLE = "gridbroker"
METRICS = "metrics"
PILOTS = "broker.pilots.routes.pilots"


@dataclass(frozen=True)
class Parts:
    """What an application is made of besides its own routes.

    Attributes:
        local_token: of this machine; None where issuers count.
        identify: further ways to find out who sends a request, such as the session of a page.
        routers: further routers, such as that of the pages; each route has a policy.
        mounts: applications of their own, by path, with manners of their own.
        observe: takes method, route, status and seconds of each request.
        refused: makes the answer to a request for what no route has; None: a problem.
        login_code: makes a code for ``/login?code=``, with which one is the account of this machine, once; None
            where nobody logs in so.
    """

    local_token: str | None = None
    identify: tuple[Identify, ...] = ()
    routers: tuple[APIRouter, ...] = ()
    mounts: tuple[tuple[str, ASGIApp], ...] = ()
    observe: tuple[Observe, ...] = field(default=())
    refused: Callable[[Request, Exception], Response] | None = None
    login_code: Callable[[], str] | None = None


def create_app(
    database: Database,
    configuration: ApiConfiguration,
    *,
    home: Path,
    folder: Path | None,
    now: Callable[[], datetime],
    steady_s: Callable[[], float],
    parts: Parts | None = None,
) -> FastAPI:
    """The application.

    Args:
        database: a small pool with a limit for each statement.
        configuration: ``config/api.yaml``.
        home: of the broker.
        folder: with configuration files of the operator's own.
        now: the time on this host (aware).
        steady_s: a clock that never goes back.
        parts: what else it is made of.
    """
    parts = parts or Parts()
    app = FastAPI(
        title=TITLE,
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    limiter = RateLimiter(configuration.rate, steady_s)
    state = ApiState(database, configuration, folder, home, now, steady_s, limiter)
    state.identify = [*_bearers(state, parts.local_token), *parts.identify]
    app.state.api = state
    metrics = BrokerMetrics(database, configuration.metrics.queues, steady_s)
    state.kept[METRICS] = metrics
    app.state.running, app.state.refused = [], parts.refused or refusal
    for module in routes():
        app.router.routes.extend(importlib.import_module(module).router.routes)
    for router in parts.routers:
        app.router.routes.extend(router.routes)
    for path, mounted in parts.mounts:
        app.mount(path, mounted)
    app.add_exception_handler(HTTPException, _refused)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    _add_middleware(app, configuration, _observing((metrics.observe, *parts.observe)))
    return app


def _add_middleware(app: FastAPI, configuration: ApiConfiguration, observe: Observe) -> None:
    """What stands before the routes; the last that is added comes first."""
    app.add_middleware(Packing)
    app.add_middleware(DirectRoutes, routes=importlib.import_module(PILOTS).DIRECT)
    hosts = Hosts(configuration.hosts)
    app.add_middleware(Envelope, path_bytes=configuration.limits.path_bytes, hosts=hosts, observe=observe)


def described() -> dict[str, Any]:
    """The description of the API, which needs no database."""
    nowhere = Path("nowhere")
    with Database("postgresql://localhost/nowhere") as database:
        app = create_app(
            database,
            ApiConfiguration(),
            home=nowhere,
            folder=None,
            now=lambda: datetime.min.replace(tzinfo=UTC),
            steady_s=lambda: 0.0,
        )
        return describe(app)


def while_running(app: FastAPI, run: Callable[[], Any]) -> None:
    """Have the asynchronous context manager that ``run`` makes entered while the application runs."""
    app.state.running.append(run)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(upkeep(app.state.api))
        for run in app.state.running:
            await stack.enter_async_context(run())
        try:
            yield
        finally:
            for end in app.state.api.at_end:
                end()


def _bearers(state: ApiState, local_token: str | None) -> Iterable[Identify]:
    if not state.configuration.issuers:
        return [] if local_token is None else [LocalBearer(LocalToken(local_token))]
    # what checks signatures takes long to import
    from broker.api.bearer import IssuedBearer
    from broker.api.issuer_keys import IssuerKeys

    issuers = [
        (section, IssuerKeys(section, state.database, state.now, state.steady_s))
        for section in state.configuration.issuers
    ]
    return [IssuedBearer(issuers, state.now)]


def _observing(observers: tuple[Observe, ...]) -> Observe:
    def observe(method: str, route: str, status: int, seconds: float) -> None:
        for one in observers:
            one(method, route, status, seconds)

    return observe


async def _refused(request: Request, error: Exception) -> Response:
    response: Response = request.app.state.refused(request, error)
    return response
