"""Direct handling of very frequent requests: the checks and answers of their routes, without the framework in between.

The route itself remains: the description shows it, and it handles every request without a plain JSON body.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.access.policies import Policy
from broker.api.guarded_route import guarded

_PLAIN = (b"content-type", b"application/json")


@dataclass(frozen=True)
class DirectRoute:
    """A route whose requests are answered directly.

    Attributes:
        path: path of the route.
        policy: who may use it.
        body_limit: name of the limit for its body in ``limits`` of ``config/api.yaml``.
        answer: the handler, called once the sender is admitted and the body is read.
    """

    path: str
    policy: Policy
    body_limit: str
    answer: Callable[[Request], Coroutine[Any, Any, Response]]


class DirectRoutes:
    """ASGI middleware that answers the requests of direct routes.

    Args:
        app: answers everything else.
        routes: the direct routes, by method and path.
    """

    def __init__(self, app: ASGIApp, *, routes: Mapping[tuple[str, str], DirectRoute]) -> None:
        self._app, self._routes = app, routes

    def route_of(self, scope: Scope) -> DirectRoute | None:
        """Return the direct route of a request; None if something else answers it."""
        if scope["type"] != "http" or _PLAIN not in scope["headers"]:
            return None
        return self._routes.get((scope["method"], scope["path"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI application."""
        route = self.route_of(scope)
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        response = await guarded(Request(scope, receive), route.policy, route.body_limit, route.answer)
        await response(scope, receive, send)
