"""The API as pages: all operations, each with its input and output; rendered by the server, without scripts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import OPEN
from broker.api.browsing import operation_shown, operations
from broker.api.guarded_route import allow
from broker.store.query_context import NothingFound
from broker.web.rendering import page_router, show

router = page_router(tag="api")
InPath = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^\w+$")]


@router.get("/docs")
@allow(OPEN)
def list_operations(request: Request) -> Response:
    """All operations of the HTTP API."""
    return show(request, "service/api", operations(request.app.openapi()), title="API")


@router.get("/docs/{operation}")
@allow(OPEN)
def get_operation(request: Request, operation: InPath) -> Response:
    """One operation: how to ask, what goes in, what comes out."""
    description = request.app.openapi()
    details = operation_shown(description, operation)
    if details is None:
        names = [line.operation for line in operations(description).operations]
        raise NothingFound("operation", operation, "openapi.json", names)
    return show(request, "service/api_operation", details, title=operation)
