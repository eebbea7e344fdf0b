"""Stored cycles shared by all what-if tests."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.whatif.model.cases import Case
from tests.conftest import TestServer
from tests.whatif.stored import ANALYSIS, JOBS, TASKS, stored_case


@pytest.fixture(scope="session")
def cases(test_server: TestServer) -> dict[str, Case]:
    """One stored cycle of each brokerage, by brokerage name."""
    by_brokerage = {}
    for brokerage in (JOBS, TASKS, ANALYSIS):
        url = test_server.create()
        with Database(url) as database:
            by_brokerage[brokerage] = stored_case(database, brokerage)
        test_server.drop(sa.make_url(url).database or "")
    return by_brokerage
