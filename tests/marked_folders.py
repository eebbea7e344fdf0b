"""Folders whose tests need something that ``make test`` does not bring: each has a mark, and a target that runs it."""

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
    """Give the tests beside a ``conftest.py`` their mark, and leave them out unless they were asked for by it.

    Args:
        config: of the run.
        items: that were collected; changed in place.
        conftest: the file, ``__file__`` there.
        mark: its name.
        variable: of the environment; they are run as well where it is set.
        timeout_s: of each test; None: that of all tests.
    """
    folder = f"{Path(conftest).parent}{os.sep}"
    here = [item for item in items if str(item.path).startswith(folder)]
    for item in here:
        item.add_marker(getattr(pytest.mark, mark))
        if timeout_s is not None:
            item.add_marker(pytest.mark.timeout(timeout_s))
    if (variable is None or variable not in os.environ) and mark not in config.getoption("markexpr"):
        items[:] = [item for item in items if item not in here]
