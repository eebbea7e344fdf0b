"""The OpenAPI description of ``/api/v1``: what FastAPI makes of the routes, with problems as they really are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from broker.api.guarded_route import GuardedRoute
from broker.api.problems import MEDIA_TYPE, ProblemBody

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
    """The description, made once."""
    if app.openapi_schema is None:
        routes = [route for route in app.routes if isinstance(route, APIRoute)]
        found = get_openapi(
            title=app.title, version=app.version, openapi_version=VERSION, description=_ABOUT, routes=routes
        )
        _describe_problems(found)
        _describe_policies(found, routes)
        app.openapi_schema = found
    return app.openapi_schema


def _describe_problems(description: dict[str, Any]) -> None:
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    made = TypeAdapter(ProblemBody).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas.update(made.pop("$defs", {}))
    schemas["ProblemBody"] = made
    for path in description["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)
            responses |= {"4XX": _PROBLEM, "5XX": _PROBLEM}


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
