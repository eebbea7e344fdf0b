"""Builds the application of the API: state, routers, envelope, problems, compression, OpenAPI description.

- The description of ``/api/v1`` is the one that FastAPI generates from the routes, with problems as they really are.
- Answers of the API are compressed with gzip for clients that accept it. Pages are not: they hold their form token next
  to text of the request, and the length of a compressed answer would reveal that token letter by letter (BREACH).
- In the background, old requests, tokens, matches and runs are removed once an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from broker import __version__
from broker.api.configuration import ApiConfiguration
from broker.api.direct_routes import DirectRoutes
from broker.api.envelope import Envelope, Hosts, Observe
from broker.api.guarded_route import GuardedRoute, refusal
from broker.api.local_token import LocalBearer, LocalToken
from broker.api.problems import MEDIA_TYPE, ProblemBody
from broker.api.property_texts import add_texts, describe_parameter
from broker.api.state import ApiState, Identify, RateLimiter
from broker.errors import BrokerError
from broker.feature import routes
from broker.service.routes.metrics import BrokerMetrics
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.http_requests import remove_old

_log = logging.getLogger(__name__)
EVERY_S = 3600.0
FIRST_AFTER_S = 60.0
_FAILED: tuple[type[Exception], ...] = (BrokerError, *TRANSIENT_ERRORS)


@contextlib.asynccontextmanager
async def upkeep(api: ApiState) -> AsyncIterator[None]:
    """Remove old rows once an hour while the block runs."""
    task = asyncio.get_running_loop().create_task(_forget(api))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _forget(api: ApiState) -> None:
    await asyncio.sleep(FIRST_AFTER_S)
    while True:
        try:
            counts = await run_in_threadpool(remove_old, api.database)
            _log.info("forgotten", extra={"fields": counts})
        except _FAILED as error:
            _log.warning("nothing forgotten: database", extra={"fields": {"error": str(error)}})
        await asyncio.sleep(EVERY_S)


VERSION = "3.1.0"
_PROBLEM = {
    "description": "A problem: `code` says why, `remedy` what to do.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
}
_ABOUT = (
    "The answers of the broker. Names of fields are PanDA's, times are ISO 8601 in UTC, units stand in names. "
    "Within v1 fields and routes are only added. Feasibility is no promise: nothing is reserved."
)


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description, generated once."""
    if app.openapi_schema is None:
        routes = [route for route in app.routes if isinstance(route, APIRoute)]
        description = get_openapi(
            title=app.title, version=app.version, openapi_version=VERSION, description=_ABOUT, routes=routes
        )
        _describe_problems(description)
        add_texts(description["components"]["schemas"])
        _name_operations(description, routes)
        _describe_policies(description, routes)
        app.openapi_schema = description
    return app.openapi_schema


def _describe_problems(description: dict[str, Any]) -> None:
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schema = TypeAdapter(ProblemBody).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas.update(schema.pop("$defs", {}))
    schemas["ProblemBody"] = schema
    for path in description["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)
            responses |= {"4XX": _PROBLEM, "5XX": _PROBLEM}


def _name_operations(description: dict[str, Any], routes: list[APIRoute]) -> None:
    """Name each operation after its function, and give each parameter a description and an example."""
    for route in routes:
        for method in route.methods or ():
            operation = description["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None:
                operation["operationId"] = route.name
                for parameter in operation.get("parameters", ()):
                    describe_parameter(parameter)


def _describe_policies(description: dict[str, Any], routes: list[APIRoute]) -> None:
    description["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    for route in routes:
        if not isinstance(route, GuardedRoute):
            continue
        for method in route.methods or ():
            operation = description["paths"].get(route.path_format, {}).get(method.lower())
            if operation is None:
                continue
            operation["x-policy"] = route.policy.name
            if route.policy.anonymous != "always":
                optional: list[dict[str, list[str]]] = [{}] if route.policy.anonymous == "if_configured" else []
                operation["security"] = [*optional, {"bearer": []}]


LEAST_BYTES = 1024
LEVEL = 4
_PACKED = ("/api/", "/static/", "/metrics")


class CompressionMiddleware:
    """ASGI middleware that compresses answers; ``app`` is the application inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._packed = app, GZipMiddleware(app, LEAST_BYTES, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI application."""
        packs = scope["type"] == "http" and scope["path"].startswith(_PACKED)
        await (self._packed if packs else self._app)(scope, receive, send)


class CrossOrigin:
    """ASGI middleware: lets pages of listed origins call the API with a token, never with cookies (Fetch, CORS)."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._cors = CORSMiddleware(
            app, allow_origins=origins, allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"),
            expose_headers=("ETag", "Location", "Retry-After"),
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI application."""
        of_api = scope["type"] == "http" and scope["path"].startswith("/api/")
        await (self._cors if of_api else self._app)(scope, receive, send)


TITLE = "gridbroker"
METRICS = "metrics"
PILOTS = "broker.pilots.routes.pilots"


@dataclass(frozen=True)
class Parts:
    """The parts of an application besides its own routes.

    Attributes:
        local_token: the token of this machine; None if issuers are configured.
        identify: further ways to identify the sender of a request, such as the session of a page.
        routers: further routers, such as that of the pages; each route has a policy.
        mounts: separate applications by path, with conventions of their own.
        observe: called with method, route, status and seconds of each request.
        refused: makes the answer to a request that matches no route; None: a problem.
        login_code: makes a one-time code for ``/login?code=`` that logs in as the account of this machine; None if this
            login is not available.
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
    """Create the application.

    Args:
        database: a small pool with a limit for each statement.
        configuration: content of ``config/api.yaml``.
        home: home folder of the broker.
        folder: folder of the operator's own configuration files.
        now: the time on this host (aware).
        steady_s: a clock that never goes back.
        parts: the parts besides its own routes.
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
    metrics = BrokerMetrics(database, configuration.metrics.queues, steady_s, home)
    state.parts[METRICS] = metrics
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
    """Add the middleware in front of the routes; the last one added runs first."""
    routes, hosts = importlib.import_module(PILOTS).DIRECT, Hosts(configuration.hosts)
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(DirectRoutes, routes=routes)
    direct = DirectRoutes(app, routes=routes)
    inner: ASGIApp = direct
    if configuration.cors.origins:
        app.add_middleware(CrossOrigin, origins=configuration.cors.origins)
        inner = CrossOrigin(inner, configuration.cors.origins)
    path_bytes = configuration.limits.path_bytes
    app.add_middleware(Envelope, path_bytes=path_bytes, hosts=hosts, observe=observe)
    enveloped = Envelope(inner, path_bytes=path_bytes, hosts=hosts, observe=observe)
    app.state.front = _front(app, direct, enveloped)


def _front(app: FastAPI, direct: DirectRoutes, enveloped: ASGIApp) -> ASGIApp:
    """Wrap ``app``: requests of direct routes pass the middleware of all routes, but not the framework around it."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        if direct.route_of(scope) is None:
            await app(scope, receive, send)
            return
        scope["app"] = app
        await enveloped(scope, receive, send)

    return front


def described() -> dict[str, Any]:
    """Return the description of the API, which needs no database."""
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
    """Enter the asynchronous context manager returned by ``run`` while the application runs."""
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
    # the module that checks signatures takes long to import
    from broker.api.bearer import IssuedBearer
    from broker.api.issuer_keys import IssuerKeys

    issuers = [
        (section, IssuerKeys(section, state.database, state.now, state.steady_s))
        for section in state.configuration.issuers
    ]
    return [IssuedBearer(issuers, state.now)]


def _observing(observers: tuple[Observe, ...]) -> Observe:
    def observe(method: str, route: str, status: int, seconds: float) -> None:
        for observer in observers:
            observer(method, route, status, seconds)

    return observe


async def _refused(request: Request, error: Exception) -> Response:
    response: Response = request.app.state.refused(request, error)
    return response
