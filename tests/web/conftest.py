"""A shared web server on a small grid with one stored cycle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from tests.api.decided import decided_database
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.conftest import TestServer

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="session")
def decided(test_server: TestServer) -> Iterator[Database]:
    """A database with two brokered tasks and one task without a queue."""
    with decided_database(test_server) as database:
        yield database


@pytest.fixture(scope="session")
def site(decided: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The web server on that grid."""
    configuration = shipped(rate={"anonymous": {"per_s": 1000, "burst": 1000}, "tuner": {"per_s": 1000, "burst": 1000}})
    home: Path = tmp_path_factory.mktemp("home")
    with serving(decided, home, configuration, parts=page_parts(configuration, TOKEN, time.monotonic)) as server:
        yield server


@pytest.fixture
def stranger(site: ApiServer) -> Iterator[httpx.Client]:
    """A browser without a session."""
    with client_of(site, BROWSER) as browser:
        yield browser


@pytest.fixture
def logged_in_client(site: ApiServer) -> Iterator[httpx.Client]:
    """A browser that is logged in with the token."""
    with client_of(site, BROWSER) as browser:
        assert browser.post("/login", data={"token": TOKEN}).status_code == 303
        yield browser
