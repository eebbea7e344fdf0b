from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database


@pytest.fixture(scope="module")
def make_module_database(test_server: Any) -> Iterator[Callable[[], Database]]:
    """Makes databases that live as long as the tests of one file."""
    with contextlib.ExitStack() as stack:

        def make() -> Database:
            url = test_server.create()
            stack.callback(test_server.drop, sa.make_url(url).database or "")
            return stack.enter_context(Database(url))

        yield make
