"""An assistant in one process: the client of the protocol on a server that answers from a database or an API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.client.client import Client

from broker.service.commands.mcp_server import Assistant, server_of

Conversation = Callable[[Client], Awaitable[Any]]


def converse(assistant: Assistant, talk: Conversation) -> Any:
    """The result of ``talk`` in a session with the tools of ``assistant``."""

    async def run() -> Any:
        async with Client(server_of(assistant)) as client:
            return await talk(client)

    return anyio.run(run)
