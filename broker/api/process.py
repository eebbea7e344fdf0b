"""The API of one process: assembles the pool, the local token, the application and its server.

Logs of the API go through structlog: JSON lines in a pipe, colours on a terminal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from agents.service import json_log
from agents.service.configuration import config_file
from broker.access import policies
from broker.access.policies import Role
from broker.api import local_token
from broker.api.app import Parts, create_app
from broker.api.configuration import ApiConfiguration, load
from broker.api.lane import Lane
from broker.api.problems import Problem
from broker.api.server import ApiServer, ListenOptions, check
from broker.api.state import ApiState
from broker.pilots.routes.panda.access import Identify, Identity, TooManyRequests, of_token
from broker.pilots.routes.panda.app import beside, pilot_app
from broker.store.connection.database import Database

FILE = "api.yaml"
MakeParts = Callable[[ApiConfiguration, str | None, Callable[[], float]], Parts]
"""Called with the configuration, the local token if one applies, and a clock that never goes back."""


def without_page(configuration: ApiConfiguration, token: str | None, steady_s: Callable[[], float]) -> Parts:
    """Return the parts of an API without the web page package."""
    return Parts(local_token=token)


@dataclass(frozen=True)
class Running:
    """An API that is being served.

    Attributes:
        server: server of the application.
        token_file: token file of this machine; None if issuers are configured.
        token: content of that file.
        login_code: makes a code for ``/login?code=``; None if people log in otherwise, or there is no page.
    """

    server: ApiServer
    token_file: Path | None
    token: str | None
    login_code: Callable[[], str] | None


@contextmanager
def serving(
    database: Database, listening: ListenOptions, *, home: Path, folder: Path | None, make: MakeParts = without_page
) -> Iterator[Running]:
    """Serve the API on ``database`` while the block runs.

    Args:
        database: the database; another pool is made from it, and its own is left to others.
        listening: where to listen.
        home: home folder of the broker, with the token file.
        folder: folder of the operator's own configuration files.
        make: makes the parts of the application besides its own routes, such as the page.

    Raises:
        NotSafe: it would listen beyond this machine without protection.
        NotListening: the address is not available.
        ConfigurationError: ``api.yaml`` cannot be used.
    """
    check(listening)
    configuration = load(config_file(FILE, folder))
    configuration = configuration.model_copy(update={"hosts": (*configuration.hosts, listening.host)})
    token = None if configuration.issuers else local_token.read_or_make(home)
    parts = make(configuration, token, time.monotonic)
    with pool(database, configuration) as own_pool:
        app = create_app(
            own_pool,
            configuration,
            home=home,
            folder=folder,
            now=lambda: datetime.now(UTC),
            steady_s=time.monotonic,
            parts=parts,
        )
        section = configuration.database
        lane = Lane("pilots", section.for_pilots, section.wait_s)
        app.state.api.at_end.append(lane.close)
        pilots = pilot_app(own_pool, identify_pilot(app.state.api), lane)
        with ApiServer(app, listening, configuration.limits, beside(app.state.front, pilots)) as server:
            token_file = None if token is None else local_token.token_file(home)
            yield Running(server, token_file, token, parts.login_code)


def identify_pilot(state: ApiState) -> Identify:
    """Identify callers of the pilot interface as the API does by the same token, with the role for pilots.

    Requests count as those of the API do. An address without a known sender has the rate of a pilot, since many pilots
    read the settings of their queue through one address.
    """

    async def identify(connection: HTTPConnection) -> Identity | None:
        identity = await _identify_caller(state, connection)
        address = connection.client.host if connection.client is not None else ""
        wait_s = state.limiter.wait_s(identity, address, stranger=Role.PILOT.value)
        if wait_s > 0:
            raise TooManyRequests(wait_s)
        return None if identity is None else of_token(identity)

    return identify


async def _identify_caller(state: ApiState, connection: HTTPConnection) -> policies.Identity | None:
    for identify in state.identify:
        try:
            identity = await identify(connection)
        except (HTTPException, Problem):
            return None
        if identity is not None:
            return identity
    return None


def pool(database: Database, configuration: ApiConfiguration, *, only_reads: bool = False) -> Database:
    """Open a small connection pool with a limit for each statement; a context manager that closes it."""
    section = configuration.database
    return database.sibling(
        "gridbroker api",
        section.connections,
        statement_timeout_s=section.statement_timeout_s,
        pool_timeout_s=section.wait_s,
        only_reads=only_reads,
    )


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the logs of the API to ``stream`` (default: stderr)."""
    json_log.configure(stream, level)
    warnings = logging.getLogger("uvicorn")
    warnings.handlers = logging.getLogger("broker").handlers
    warnings.setLevel(logging.WARNING)
    warnings.propagate = False
