"""One API for all tests of a module, on the database that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving


@pytest.fixture(scope="module")
def server(shared: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API on the shared database."""
    home: Path = tmp_path_factory.mktemp("home")
    with serving(shared, home) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: ApiServer) -> Iterator[httpx.Client]:
    """Somebody with the token of this machine."""
    with client_of(server) as found:
        yield found


@pytest.fixture(scope="module")
def stranger(server: ApiServer) -> Iterator[httpx.Client]:
    """Somebody without a token."""
    with client_of(server, {}) as found:
        yield found
