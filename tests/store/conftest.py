"""Tests of the store write rows rather than tables: they use one database, emptied after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.store.connection.database import Database
from tests.conftest import TestServer
from tests.kept_database import KeptDatabase


@pytest.fixture(scope="session")
def kept_database(test_server: TestServer) -> Iterator[KeptDatabase]:
    """The one database of this process."""
    kept = KeptDatabase(test_server)
    yield kept
    kept.close()


@pytest.fixture
def database(kept_database: KeptDatabase) -> Iterator[Database]:
    """A database with the current schema and no rows of another test."""
    yield kept_database.take()
    kept_database.give_back()
