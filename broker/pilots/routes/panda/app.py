"""The application: its routes, its own OpenAPI schema, and how it shares one port with another application."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from broker import __version__
from broker.api.lane import Lane, LaneBusy
from broker.pilots.answers import workers
from broker.pilots.routes.panda import legacy
from broker.pilots.routes.panda.access import NO_IDENTITY, Identify, TooManyRequests, anybody
from broker.pilots.routes.panda.arguments import body_schema
from broker.pilots.routes.panda.bodies import BodyRefused, read_json
from broker.pilots.routes.panda.methods import METHODS, READING, Call, Method, run
from broker.pilots.routes.panda.service import UNAVAILABLE, PilotService
from broker.store.connection.database import Database

V1, CACHE = "/api/v1", "/cache"
PREFIXES = (legacy.PREFIX, f"{V1}/pilot", f"{V1}/harvester", f"{CACHE}/schedconfig", f"{CACHE}/ddmendpoints.json")
"""Beginnings of the paths that this application answers; the rest of the cache is archives of panda-client."""

_log = logging.getLogger(__name__)


def pilot_app(database: Database, identify: Identify = anybody, lane: Lane | None = None) -> FastAPI:
    """The interface for pilots and Harvester.

    Args:
        database: database of a standalone installation.
        identify: identifies callers; without it everybody who reaches the port is trusted.
        lane: bounds the requests that are worked on at once, each with one connection; None: a lane of its own.
    """
    service = PilotService(database, identify) if lane is None else PilotService(database, identify, lane=lane)
    app = FastAPI(
        title="Pilots and Harvester",
        version=__version__,
        summary="The PanDA server interface for pilots and Harvester",
        openapi_url=f"{V1}/pilot/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(TooManyRequests, _slow_down)
    app.add_exception_handler(LaneBusy, _busy)
    app.add_exception_handler(Exception, _failed)
    app.include_router(_queue_data(service))
    app.include_router(_v1(service))
    app.include_router(legacy.router(service))
    return app


def is_for_pilots(path: str) -> bool:
    """Whether a path belongs to the interface for pilots."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in PREFIXES)


def beside(other: ASGIApp, pilots: ASGIApp) -> ASGIApp:
    """Combine two applications: requests of pilots go to ``pilots``, everything else to ``other``."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        is_pilot = scope["type"] == "http" and is_for_pilots(scope["path"])
        await (pilots if is_pilot else other)(scope, receive, send)

    return both


def _v1(service: PilotService) -> APIRouter:
    routes = APIRouter(prefix=V1)
    for name, method in METHODS.items():
        reads = name in READING
        extra = {"parameters": [_ids_parameter()]} if reads else {"requestBody": _body(method)}
        routes.add_api_route(
            f"/{name}",
            _endpoint(service, method, reads=reads),
            methods=["GET" if reads else "POST"],
            summary=(method.run.__doc__ or "").splitlines()[0],
            operation_id=name.replace("/", "_"),
            tags=[name.partition("/")[0]],
            openapi_extra=extra,
            response_class=JSONResponse,
        )
    for group in ("pilot", "harvester"):
        routes.add_api_route(
            f"/{group}/{{method:path}}", _forbidden, methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False
        )
    return routes


def _endpoint(service: PilotService, method: Method, *, reads: bool) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        who = await service.identify(request)
        if who is None:
            return PlainTextResponse(NO_IDENTITY, 403)
        try:
            values = {"job_ids": request.query_params.getlist("job_ids")} if reads else await read_json(request)
        except BodyRefused as refused:
            return PlainTextResponse(str(refused), refused.status)
        host = None if request.client is None else request.client.host
        return JSONResponse(await service.lane.run(lambda: run(method, Call(service, who, host, values))))

    return endpoint


def _queue_data(service: PilotService) -> APIRouter:
    """The data that pilots read before they ask: settings of their queue, of all queues, and endpoints."""
    # anybody may read it, but not as often as they like
    routes = APIRouter(prefix=CACHE, tags=["queue data"], dependencies=[Depends(service.identify)])
    database = service.database

    @routes.get("/schedconfig/schedconfig.all.json", operation_id="all_queue_data")
    async def all_queues() -> Response:
        """Get the settings of all queues, by name."""
        return await _read(service.lane, lambda: workers.all_queue_data(database))

    @routes.get("/schedconfig/{queue}.all.json", operation_id="queue_data_by_name")
    async def one_queue(queue: str) -> Response:
        """Get the settings of a queue, by its name."""

        def read() -> dict[str, Any] | None:
            data = workers.queue_data(database, queue)
            return None if data is None else {queue: data}

        return await _read(service.lane, read)

    @routes.get("/schedconfig/{queue}.json", operation_id="queue_data")
    async def bare_queue(queue: str) -> Response:
        """Get the settings of a queue."""
        return await _read(service.lane, lambda: workers.queue_data(database, queue))

    @routes.get("/ddmendpoints.json", operation_id="storage_data")
    async def endpoints() -> Response:
        """Get the storage endpoints, by name."""
        return await _read(service.lane, lambda: workers.storage_data(database))

    return routes


async def _read(lane: Lane, read: Callable[[], Any]) -> Response:
    try:
        content = await lane.run(read)
    except UNAVAILABLE as error:
        _log.warning("queue data could not be read", extra={"fields": {"error": str(error)}})
        return PlainTextResponse("database error", 503)
    return PlainTextResponse("no such queue", 404) if content is None else JSONResponse(content)


async def _forbidden(method: str) -> Response:
    return PlainTextResponse(f"ERROR : method {method[:80]} is forbidden", 403)


async def _slow_down(request: Request, error: Exception) -> Response:
    """Answer without JSON, so that pilots ask and report again."""
    wait_s = error.wait_s if isinstance(error, TooManyRequests) else 1.0
    return PlainTextResponse("ERROR : too many requests", 429, headers={"Retry-After": str(math.ceil(wait_s))})


async def _busy(request: Request, error: Exception) -> Response:
    """Answer without JSON, so that pilots ask and report again."""
    return PlainTextResponse("ERROR : all connections for pilots are in use", 503, headers={"Retry-After": "1"})


async def _failed(request: Request, error: Exception) -> Response:
    """Log an unforeseen error with its trace; nobody outside sees more than that there was one."""
    _log.error("a request failed", exc_info=error, extra={"fields": {"path": request.url.path}})
    return PlainTextResponse("ERROR : internal error", 500)


def _body(method: Method) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": body_schema(method.arguments)}}, "required": True}


def _ids_parameter() -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "integer"}}
    return {"name": "job_ids", "in": "query", "required": True, "schema": schema}
