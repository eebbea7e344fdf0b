"""Slurm and PSI/J, as ``make test-slurm`` has installed them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything here belongs to the mark, and is run where it was asked for."""
    folder = f"{Path(__file__).parent}{os.sep}"
    here = [item for item in items if str(item.path).startswith(folder)]
    for item in here:
        item.add_marker(pytest.mark.slurm)
        item.add_marker(pytest.mark.timeout(1200))
    if "slurm" not in config.getoption("markexpr"):
        items[:] = [item for item in items if item not in here]
