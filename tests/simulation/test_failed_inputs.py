"""The simulated broker knows failed jobs that wait again as of the agent's last cycle, for six hours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.domain.failed_inputs import FailedFiles
from broker.simulation.model.real.learned import PERIOD_S, failed_inputs

EPOCH_S, DATASET = 1_000_000.0, 500
SIX_H = 21_600.0


def known_inputs(now_s: float, failed_at: dict[int, dict[int, float]], unassigned: list[int]) -> Any:
    task: Any = SimpleNamespace(task=SimpleNamespace(number=7), failed_at=failed_at, unassigned=unassigned)
    return failed_inputs(["A", "B"], [task], now_s, EPOCH_S, DATASET).get((7, DATASET + 7))


@pytest.mark.parametrize(
    ("now_s", "failed_at", "unassigned", "expected"),
    [
        (PERIOD_S, {3: {0: PERIOD_S}}, [3], {"A": FailedFiles(1, EPOCH_S + PERIOD_S)}),
        (2 * PERIOD_S - 1, {3: {0: PERIOD_S + 1}}, [3], None),  # the agent has not seen it
        (2 * PERIOD_S, {3: {0: PERIOD_S + 1}}, [3], {"A": FailedFiles(1, EPOCH_S + PERIOD_S + 1)}),
        (PERIOD_S, {3: {0: 1.0}}, [4], None),  # it runs again
        (SIX_H, {3: {0: 0.0}}, [3], {"A": FailedFiles(1, EPOCH_S)}),
        (SIX_H + PERIOD_S, {3: {0: 0.0}}, [3], None),
        (
            PERIOD_S,
            {3: {0: 1.0, 1: 2.0}, 4: {1: 9.0}},
            [4, 3],
            {"A": FailedFiles(1, EPOCH_S + 1), "B": FailedFiles(2, EPOCH_S + 9)},
        ),
        (PERIOD_S, {}, [3], None),
    ],
)
def test_known_failed_inputs(
    now_s: float, failed_at: dict[int, dict[int, float]], unassigned: list[int], expected: Any
) -> None:
    assert known_inputs(now_s, failed_at, unassigned) == expected
