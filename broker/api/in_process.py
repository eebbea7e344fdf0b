"""The API without a server: the application itself answers the requests of this process, on read-only transactions.

As with every command on the broker's own machine, the caller must be able to open the database. The policies of the
routes apply, and the caller is a reader.
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
    """Sends requests to an application; used in worker threads of the event loop in which the application runs.

    Attributes:
        database: the database that it reads.
    """

    def __init__(self, app: httpx.ASGITransport, database: Database) -> None:
        """Take the application as ``app``, in the form of an httpx transport."""
        self._app, self.database = app, database

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the application's answer."""
        return anyio.from_thread.run(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        answer = await self._app.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


@contextmanager
def reading(database: Database, *, home: Path, folder: Path | None) -> Iterator[InProcess]:
    """Open the API on ``database`` for a caller who only reads.

    Args:
        database: the database; a second pool with read-only transactions is made from it.
        home: home folder of the broker.
        folder: folder of the operator's own configuration files.

    Raises:
        ConfigurationError: ``api.yaml`` cannot be used.
    """
    # the caller is identified by the account, whatever issuers there are
    configuration = load(config_file(FILE, folder)).model_copy(update={"issuers": (), "hosts": ("127.0.0.1",)})
    reader = Identity(account(), LOCAL, {Role.READER: Grant(Role.READER)})

    async def identify(connection: HTTPConnection) -> Identity | None:
        return reader

    with pool(database, configuration, only_reads=True) as read_only:
        app = create_app(
            read_only,
            configuration,
            home=home,
            folder=folder,
            now=lambda: datetime.now(UTC),
            steady_s=time.monotonic,
            parts=Parts(identify=(identify,)),
        )
        yield InProcess(httpx.ASGITransport(app, client=("127.0.0.1", 0)), read_only)
        for end in app.state.api.at_end:
            end()
