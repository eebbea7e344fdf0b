"""Fixtures of all tests of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.service import fault_points


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """Disarm every fault that the test armed."""
    yield
    fault_points.disarm()
