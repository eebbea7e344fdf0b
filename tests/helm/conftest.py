"""The chart, rendered by the Helm that ``make kubernetes`` installs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helm.chart import Chart
from tests.marked_folders import keep_to_mark

HELM = "BROKER_TEST_HELM"
"""Environment variable with the path of the helm command."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they run only where the mark is requested."""
    keep_to_mark(config, items, __file__, "helm")


@pytest.fixture(scope="session")
def chart() -> Chart:
    """The chart of this checkout."""
    command = os.environ.get(HELM)
    assert command, f"{HELM} names the helm command: run make kubernetes"
    return Chart(Path(command))
