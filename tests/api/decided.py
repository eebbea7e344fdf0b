"""A small grid with one stored cycle of jobs, served by the API, for the tests of routes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import serving
from tests.brokerages.stored_grids import store_jobs
from tests.conftest import TestServer


@contextmanager
def decided_database(server: TestServer) -> Iterator[Database]:
    """Two tasks that were brokered, and one that has no queue."""
    url = server.create()
    with Database(url) as database:
        store_jobs(database)
        yield database
    server.drop(sa.make_url(url).database or "")


@contextmanager
def decided_server(server: TestServer, home: Path) -> Iterator[tuple[Database, ApiServer]]:
    """The API on such a database."""
    with decided_database(server) as database, serving(database, home) as found:
        yield database, found
