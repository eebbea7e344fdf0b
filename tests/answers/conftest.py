from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from tests.answers.demo_database import NOON, broker_the_demo
from tests.conftest import TestServer

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def demo(test_server: TestServer) -> Iterator[Database]:
    """The example grid, brokered once."""
    url = test_server.create()
    with Database(url) as database:
        broker_the_demo(database)
        yield database
    test_server.drop(sa.make_url(url).database or "")


@pytest.fixture
def ask(demo: Database) -> Ask:
    """``ask(function, ...)``: calls the function with a snapshot of the example grid at noon."""

    def answer(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        with demo.read_snapshot() as connection:
            return function(QueryContext(connection, demo.names, NOON), *arguments, **keywords)

    return answer
