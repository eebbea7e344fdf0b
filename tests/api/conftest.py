"""One API for all tests of a module, on the shared database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving


@pytest.fixture(scope="module")
def server(shared_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API on the shared database."""
    home: Path = tmp_path_factory.mktemp("home")
    with serving(shared_database, home) as api:
        yield api


@pytest.fixture(scope="module")
def client(server: ApiServer) -> Iterator[httpx.Client]:
    """A client with the local token."""
    with client_of(server) as http_client:
        yield http_client


@pytest.fixture(scope="module")
def stranger(server: ApiServer) -> Iterator[httpx.Client]:
    """A client without a token."""
    with client_of(server, {}) as http_client:
        yield http_client
