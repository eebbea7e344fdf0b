"""Store tests change rows rather than tables, so they reuse one database that is emptied after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.store.connection.database import Database
from tests.conftest import TestServer
from tests.kept_database import KeptDatabase


@pytest.fixture(scope="session")
def kept_database(test_server: TestServer) -> Iterator[KeptDatabase]:
    """The reused database of this process."""
    cached_database = KeptDatabase(test_server)
    yield cached_database
    cached_database.close()


@pytest.fixture
def database(kept_database: KeptDatabase) -> Iterator[Database]:
    """A database with the current schema and no rows from other tests."""
    yield kept_database.take()
    kept_database.give_back()
