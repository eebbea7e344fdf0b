from __future__ import annotations

import pytest

from broker.pilots.routes.panda.app import pilot_app
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client


@pytest.fixture(scope="module")
def client(shared_database: Database) -> Client:
    """A client of the pilot interface on the module's database."""
    return Client(pilot_app(shared_database))
