"""What all tests of agents share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.service import fault_points


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No fault that a test arms is left for the next one."""
    yield
    fault_points.disarm()
