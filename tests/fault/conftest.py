from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer


@pytest.fixture(scope="module")
def make_module_database(test_server: Any) -> Iterator[Callable[[], Database]]:
    """Create databases that live as long as the tests of one module."""
    with contextlib.ExitStack() as stack:

        def make() -> Database:
            url = test_server.create()
            stack.callback(test_server.drop, sa.make_url(url).database or "")
            return stack.enter_context(Database(url))

        yield make


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that the test may stop and start, in a folder that no other pytest run makes inaccessible."""
    folder = Path(tempfile.mkdtemp(prefix="gridbroker-own-"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "home")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)
