"""The real pilot installed by ``make test-pilot``, and the installation that it works with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import TestServer
from tests.marked_folders import keep_to_mark
from tests.real_pilot.installation import Installation, serve_installation
from tests.real_pilot.launcher import PilotLauncher

FOLDER = "BROKER_TEST_PILOT"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they run where the pilot is installed or the mark is requested."""
    keep_to_mark(config, items, __file__, "pilot", variable=FOLDER, timeout_s=600)


@pytest.fixture(scope="session")
def launcher() -> PilotLauncher:
    """The launcher of the pilot in the folder named by the environment variable."""
    folder = Path(os.environ[FOLDER])
    pilot_launcher = PilotLauncher(folder / "bin" / "python", folder / "source")
    pilot_launcher.check()
    return pilot_launcher


@pytest.fixture(scope="module")
def installation(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A broker with two queues."""
    with (
        test_server.opened(test_server.create()) as database,
        serve_installation(database, tmp_path_factory.mktemp("installation")) as running_installation,
    ):
        yield running_installation
