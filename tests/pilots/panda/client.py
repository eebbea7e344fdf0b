"""A client of an application in the same process, usable from any thread."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Client:
    """Sends requests to an ASGI application, each in its own event loop."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def request(self, method: str, path: str, **values: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://pilots") as client:
                return await client.request(method, path, **values)

        return asyncio.run(send())

    def get(self, path: str, **values: Any) -> httpx.Response:
        return self.request("GET", path, **values)

    def post(self, path: str, **values: Any) -> httpx.Response:
        return self.request("POST", path, **values)
