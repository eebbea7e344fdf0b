"""A pool that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.pools.answers.pool import pool_answer
from broker.store.query_context import NothingFound

Ask = Callable[..., Any]


def test_an_unknown_pool(query_demo: Ask) -> None:
    with pytest.raises(NothingFound, match="there is no pool x"):
        query_demo(pool_answer, "x")
