"""Folders whose tests need more than ``make test`` provides: each has a mark, and a make target that runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def keep_to_mark(
    config: pytest.Config,
    items: list[pytest.Item],
    conftest: str,
    mark: str,
    *,
    variable: str | None = None,
    timeout_s: float | None = None,
) -> None:
    """Mark the tests beside a ``conftest.py``, and deselect them unless their mark was selected.

    Args:
        config: the configuration of the run.
        items: the collected tests; changed in place.
        conftest: ``__file__`` of the ``conftest.py``.
        mark: the name of the mark.
        variable: an environment variable that also selects the tests if it is set.
        timeout_s: the time limit of each test; None: the general one.
    """
    folder = f"{Path(conftest).parent}{os.sep}"
    here = [item for item in items if str(item.path).startswith(folder)]
    for item in here:
        item.add_marker(getattr(pytest.mark, mark))
        if timeout_s is not None:
            item.add_marker(pytest.mark.timeout(timeout_s))
    if (variable is None or variable not in os.environ) and mark not in config.getoption("markexpr"):
        items[:] = [item for item in items if item not in here]
