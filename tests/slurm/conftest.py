"""Slurm and PSI/J, as ``make test-slurm`` has installed them."""

from __future__ import annotations

import pytest

from tests.marked_folders import keep_to_mark


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything here belongs to the mark, and is run where it was asked for."""
    keep_to_mark(config, items, __file__, "slurm", timeout_s=1200)
