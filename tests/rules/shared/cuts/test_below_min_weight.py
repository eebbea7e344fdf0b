"""The smallest weight of a share."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.shared.cuts.below_min_weight import BelowMinWeight
from tests.rules.builders import check_cut

IDLE = {"min_weight": 0.5, "bootstrap_allowed": True}


@pytest.mark.parametrize(
    ("keep", "weight", "load"),
    [
        (True, 0.0, {"min_weight": 0.0, "activated": 1.0}),
        (True, 0.5, {"min_weight": 0.5, "activated": 1.0}),
        (False, 0.49, {"min_weight": 0.5, "activated": 1.0}),
        (False, 0.49, {"min_weight": 0.5}),
        (True, 0.0, IDLE),
        *[(False, 0.0, {**IDLE, name: 1.0}) for name in ("running", "defined", "assigned", "activated", "starting")],
    ],
    ids=str,
)
def test_below_min_weight(keep: bool, weight: float, load: dict[str, Any]) -> None:
    check_cut(BelowMinWeight(), keep, weight, **load)
