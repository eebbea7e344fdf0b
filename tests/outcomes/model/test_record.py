"""Waits of jobs in cells, and quantiles of them."""

from __future__ import annotations

import pytest

from broker.outcomes.model.record import WAIT_CELLS, wait_cell, wait_quantile_min


@pytest.mark.parametrize(
    ("wait_s", "cell"), [(0.0, 0), (59.9, 0), (60.0, 1), (119.9, 1), (120.0, 2), (3600.0, 6), (1e9, WAIT_CELLS - 1)]
)
def test_waits_go_into_cells_that_double(wait_s: float, cell: int) -> None:
    assert wait_cell(wait_s) == cell


def test_a_quantile_of_no_waits_is_not_known() -> None:
    assert wait_quantile_min([0] * WAIT_CELLS, 0.5) is None
    assert wait_quantile_min([1, 1, 0, 0] + [0] * 12, 0.5) == 1.0
    assert wait_quantile_min([1, 2, 0, 0] + [0] * 12, 0.5) == 2.0
    assert wait_quantile_min([0] * 15 + [1], 0.5) == float("inf")
