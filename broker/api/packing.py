"""Answers of the API, packed with gzip for clients that take it.

Pages are not: they hold the token of their forms beside text of the request, and lengths of packed answers would tell
that token letter by letter (BREACH).
"""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

LEAST_BYTES = 1024
LEVEL = 4
_PACKED = ("/api/", "/static/", "/metrics")


class Packing:
    """ASGI middleware; ``app`` is what is inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._packed = app, GZipMiddleware(app, LEAST_BYTES, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI application."""
        packs = scope["type"] == "http" and scope["path"].startswith(_PACKED)
        await (self._packed if packs else self._app)(scope, receive, send)
