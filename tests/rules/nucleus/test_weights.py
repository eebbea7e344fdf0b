"""The factors of a nucleus weight, on both sides of their boundaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from broker.rules.production_task.weights.free_fraction import FreeFraction
from broker.rules.production_task.weights.free_space import FreeSpace
from broker.rules.production_task.weights.locality import Locality
from broker.rules.production_task.weights.remaining_work import RemainingWork
from broker.rules.production_task.weights.tape import Tape
from tests.rules.nucleus.nucleus_builders import DAY_S, GB, NOW_S, factor

TB = 1024.0
LOCALITY: list[tuple[float, dict[str, Any]]] = [
    (0.4, {"iointensity": 201, "any_bytes": 40 * GB}),
    (1.0, {"iointensity": 200, "any_bytes": 40 * GB}),
    (0.4, {"iointensity": None, "any_bytes": 40 * GB}),  # unknown is high here
    (0.4, {"iointensity": 60, "any_bytes": 40 * GB, "MIN_IO_INTENSITY_WITH_LOCAL_DATA": 50}),
    (0.4, {"iointensity": 900, "any_bytes": 40 * GB, "disk_bytes": 0}),  # tape counts
    (1.0, {"iointensity": 900, "any_bytes": 0, "examined": False}),
    (1.0, {"iointensity": 900, "any_bytes": 0, "any_files": 0, "total_bytes": 0, "total_files": 0}),
    # too little data, but still weighed: the check was waived, so no nucleus's data count
    (1.0, {"iointensity": 900, "any_bytes": 10 * GB}),
    # too little data, but the check is off because the task has waited long enough: its data count
    (0.1, {"iointensity": 900, "any_bytes": 10 * GB, "frozentime_s": NOW_S - 8 * DAY_S}),
    (0.0, {"iointensity": 900, "any_bytes": 0, "frozentime_s": NOW_S - 8 * DAY_S}),
    (0.05, {"iointensity": 900, "any_bytes": 5 * GB, "input_prestaging": True}),
]
TAPE: list[tuple[float, dict[str, Any]]] = [
    (1.0, {}),
    (0.001, {"disk_bytes": 99 * GB}),
    (0.001, {"disk_bytes": 0, "iointensity": 0}),
    (0.001, {"disk_bytes": 0, "iointensity": None}),
    (1.0, {"disk_bytes": 0, "examined": False}),
    (1.0, {"disk_bytes": 0, "any_bytes": 10 * GB}),  # waived
    (0.001, {"disk_bytes": 0, "any_bytes": 10 * GB, "frozentime_s": NOW_S - 8 * DAY_S}),
]


@pytest.mark.parametrize(("expected", "columns"), LOCALITY)
def test_locality(expected: float, columns: dict[str, Any]) -> None:
    assert factor(Locality(), **columns) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("expected", "columns"), TAPE)
def test_tape(expected: float, columns: dict[str, Any]) -> None:
    assert factor(Tape(), **columns) == expected


def test_free_fraction_counts_expired_space() -> None:
    assert factor(FreeFraction(), free_gb=200.0, expired_gb=100.0, total_gb=1200.0) == 0.25
    assert factor(FreeFraction(), free_gb=200.0, total_gb=None) == 1.0
    assert factor(FreeFraction(), free_gb=200.0, total_gb=0.0) == 1.0


def test_free_space_is_exact_in_tb_up_to_the_cutoff() -> None:
    assert factor(FreeSpace(), free_gb=1.5 * TB) == 1.5
    assert factor(FreeSpace(), free_gb=1000 * TB) == 1000
    assert factor(FreeSpace(), free_gb=1000 * TB + 512) == 1000
    assert factor(FreeSpace(), free_gb=7 * TB, FREE_DISK_CUTOFF=5) == 5
    assert factor(FreeSpace(), free_gb=7 * TB, expired_gb=5 * TB) == 7
    assert factor(FreeSpace(), free_gb=7 * TB, total_gb=None) == 1
    assert factor(FreeSpace(), free_gb=7 * TB, total_gb=0.0) == 1


@pytest.mark.parametrize(
    ("left_gb", "total_gb", "weight"), [(7.9 * TB, 9 * TB, 7.0), (7 * TB, 0.0, 1.0), (0.0, 1.0, 0.0)]
)
def test_free_space_can_count_whole_tb(left_gb: float, total_gb: float, weight: float) -> None:
    rule = FreeSpace().configured({"space": "left_in_whole_tb"})
    assert factor(rule, tightest_left_gb=left_gb, tightest_total_gb=total_gb) == weight


def test_unknown_free_space_is_nan() -> None:
    assert math.isnan(factor(FreeSpace(), free_gb=None))


def test_remaining_work_has_no_jump_at_its_offset() -> None:
    factors = RemainingWork().factor(np.array([0.0, 49.0, 50.0, 51.0, 5e9, -3.0]))
    assert factors.tolist() == [1 / 50, 1 / 50, 1 / 50, 1 / 51, 1 / 5e9, 1 / 50]


def test_little_remaining_work_may_weigh_one() -> None:
    factors = RemainingWork().configured({"below_least": "one"}).factor(np.array([0.0, 49.0, 50.0, 51.0]))
    assert factors.tolist() == [1.0, 1.0, 1 / 50, 1 / 51]
