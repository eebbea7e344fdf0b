"""The API without a server: requests of this process are answered by the application itself, on read-only transactions.

Who asks may open the database, as with every command on the broker's own machine; the policies of the routes count, and
whoever asks so is a reader.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio.from_thread
import httpx
from starlette.requests import HTTPConnection

from agents.service.configuration import config_file
from broker.access.policies import LOCAL, Grant, Identity, Role
from broker.api.app import Parts, create_app
from broker.api.configuration import load
from broker.api.local_token import account
from broker.api.process import FILE, pool
from broker.store.connection.database import Database

ADDRESS = "http://127.0.0.1"


class InProcess(httpx.BaseTransport):
    """Sends requests to an application; used in worker threads of the loop that the application runs in.

    Attributes:
        database: that it reads.
    """

    def __init__(self, app: httpx.ASGITransport, database: Database) -> None:
        """``app``: the application, as httpx asks it."""
        self._app, self.database = app, database

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer of the application."""
        return anyio.from_thread.run(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        answer = await self._app.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


@contextmanager
def reading(database: Database, *, home: Path, folder: Path | None) -> Iterator[InProcess]:
    """The API on ``database`` for somebody who only reads.

    Args:
        database: another pool is made of it, whose transactions are read-only.
        home: of the broker.
        folder: with configuration files of the operator's own.

    Raises:
        ConfigurationError: ``api.yaml`` cannot be used.
    """
    # who asks is known by the account, whatever issuers there are
    configuration = load(config_file(FILE, folder)).model_copy(update={"issuers": (), "hosts": ("127.0.0.1",)})
    reader = Identity(account(), LOCAL, {Role.READER: Grant(Role.READER)})

    async def identify(connection: HTTPConnection) -> Identity | None:
        return reader

    with pool(database, configuration, only_reads=True) as own:
        app = create_app(
            own,
            configuration,
            home=home,
            folder=folder,
            now=lambda: datetime.now(UTC),
            steady_s=time.monotonic,
            parts=Parts(identify=(identify,)),
        )
        yield InProcess(httpx.ASGITransport(app, client=("127.0.0.1", 0)), own)
        for end in app.state.api.at_end:
            end()
