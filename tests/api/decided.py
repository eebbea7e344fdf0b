"""A small grid with one stored cycle of jobs, served by the API, for the tests of routes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import serving
from tests.brokerages.small_grid import FRESH, SHARE
from tests.brokerages.stored_grids import store_jobs
from tests.conftest import TestServer

LINKS = [
    {"src": source, "dst": "ALPHA", "key": key, "value": value, "ts": FRESH}
    for source, values in (("BETA", (4, 12, 3, 62)), ("GAMMA", (7, 8, 1, 5)))
    for key, value in zip(
        ("AGIS_closeness", "Production Output_queued", "Express_queued", "dashb_mbps_1d"), values, strict=True
    )
]
"""Links far below their cap."""
SHARES = [
    {"name": "Production", "value": 60, "parent": None},
    {"name": SHARE, "value": 70, "parent": "Production"},
    {"name": "Other", "value": 30, "parent": "Production"},
    {"name": "Analysis", "value": 40, "parent": None},
]


@contextmanager
def decided_database(server: TestServer) -> Iterator[Database]:
    """A database with two brokered tasks and one task without a queue."""
    with server.opened(server.create()) as database:
        store_jobs(database, network_matrix_kv=LINKS, global_shares=SHARES)
        yield database


@contextmanager
def decided_server(server: TestServer, home: Path) -> Iterator[tuple[Database, ApiServer]]:
    """The API on a :func:`decided_database`."""
    with decided_database(server) as database, serving(database, home) as api:
        yield database, api
