"""The real pilot, as ``make test-pilot`` has installed it, and the installation that it works with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.conftest import TestServer
from tests.marked_folders import keep_to_mark
from tests.real_pilot.installation import Installation, served
from tests.real_pilot.launcher import PilotLauncher

FOLDER = "BROKER_TEST_PILOT"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything here belongs to the mark, and is run where the pilot is, or where it was asked for by its mark."""
    keep_to_mark(config, items, __file__, "pilot", variable=FOLDER, timeout_s=600)


@pytest.fixture(scope="session")
def launcher() -> PilotLauncher:
    """The launcher of the pilot in the folder that the variable names."""
    folder = Path(os.environ[FOLDER])
    found = PilotLauncher(folder / "bin" / "python", folder / "source")
    found.check()
    return found


@pytest.fixture(scope="module")
def installation(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A broker that serves two queues."""
    url = test_server.create()
    with Database(url) as database, served(database, tmp_path_factory.mktemp("installation")) as one:
        yield one
    test_server.drop(sa.make_url(url).database or "")
