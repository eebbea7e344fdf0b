"""Slurm and PSI/J, installed by ``make test-slurm``."""

from __future__ import annotations

import pytest

from tests.marked_folders import keep_to_mark


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they run only where the mark is requested."""
    keep_to_mark(config, items, __file__, "slurm", timeout_s=1200)
