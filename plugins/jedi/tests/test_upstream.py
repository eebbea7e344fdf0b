"""What is said of a decision that PanDA's broker and ours take differently."""

from __future__ import annotations

from typing import Any

import pytest
from panda.decisions import Decided
from upstream.differences import causes, equal

TRACEBACK = """Traceback (most recent call last):
  File "/somewhere/AtlasProdJobBroker.py", line 12, in doBrokerage
    x
KeyError: 'default'
"""
REFUSED = "<jediTaskID=1>   skip site=A due to insufficient RAM criteria=-lowmemory\n<jediTaskID=1> 2 candidates passed"


def _own(**values: Any) -> dict[str, Any]:
    return {"outcome": "brokered", "reason": "", "rejected": {}, "candidates": []} | values


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        ({}, {}, True),
        ({"A": 1.0}, {}, False),
        ({"A": 1.0}, {"A": 1.0 + 1e-10}, True),
        ({"A": 1.0}, {"A": 1.0 + 1e-8}, False),
        ({"A": 1.0}, {"B": 1.0}, False),
    ],
)
def test_equal_are_the_same_candidates_with_the_same_weights(theirs: Any, ours: Any, same: bool) -> None:
    assert equal(theirs, ours) is same


@pytest.mark.parametrize(
    ("theirs", "weights", "own", "told"),
    [
        (Decided(1), {}, None, ("ours: not decided",)),
        (Decided(1, error=TRACEBACK), {"A": 1.0}, _own(), ("PanDA: KeyError: 'default' (AtlasProdJobBroker 12)",)),
        (Decided(1, candidates={"A": 1.0}), {}, _own(rejected={"A": "disk"}), ("ours: disk",)),
        (Decided(1, candidates={"A": 1.0}), {}, _own(reason="no_replica"), ("ours: no_replica",)),
        (Decided(1, log=[REFUSED]), {"A/SCORE": 1.0}, _own(), ("PanDA: -lowmemory",)),
        (Decided(1, log=[REFUSED]), {"B": 1.0}, _own(), ("PanDA: .. candidates passed",)),
        (Decided(1, log=["x   skip A due to no pilot"]), {"A": 1.0}, _own(), ("PanDA: no pilot",)),
        (Decided(1, candidates={"A": 1.0}), {"A": 2.0}, _own(), ("weight",)),
        (Decided(1, candidates={"A": 1.0, "B": 1.0}), {"A": 2.0}, _own(rejected={"B": "io"}), ("ours: io", "weight")),
    ],
)
def test_causes_are_the_rules_of_the_side_that_refused(theirs: Any, weights: Any, own: Any, told: Any) -> None:
    assert causes(theirs, weights, own) == told
