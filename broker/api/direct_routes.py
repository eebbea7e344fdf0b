"""Requests that come by the thousand: the same checks and answers as their routes, without the framework between.

The route itself stays where it is: it is what the description shows, and takes whatever is not a plain JSON body.
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
    """One of them.

    Attributes:
        path: of the route.
        policy: who may use it.
        body_limit: the limit in ``limits`` of ``config/api.yaml`` that its body has.
        answer: the handler, once somebody is let in and the body is read.
    """

    path: str
    policy: Policy
    body_limit: str
    answer: Callable[[Request], Coroutine[Any, Any, Response]]


class DirectRoutes:
    """ASGI middleware.

    Args:
        app: what answers everything else.
        routes: by method and path.
    """

    def __init__(self, app: ASGIApp, *, routes: Mapping[tuple[str, str], DirectRoute]) -> None:
        self._app, self._routes = app, routes

    def route_of(self, scope: Scope) -> DirectRoute | None:
        """The route of a request that is answered here; None: something else answers it."""
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
