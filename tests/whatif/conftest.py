"""Stored cycles shared by all what-if tests."""

from __future__ import annotations

import pytest

from broker.whatif.model.cases import Case
from tests.conftest import TestServer
from tests.whatif.stored import ANALYSIS, JOBS, TASKS, stored_case


@pytest.fixture(scope="session")
def cases(test_server: TestServer) -> dict[str, Case]:
    """One stored cycle of each brokerage, by brokerage name."""
    by_brokerage = {}
    for brokerage in (JOBS, TASKS, ANALYSIS):
        with test_server.opened(test_server.create()) as database:
            by_brokerage[brokerage] = stored_case(database, brokerage)
    return by_brokerage
