"""Data locality on both sides of each boundary: thresholds, fractions, staging, waiver and period."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.production_task.filters.innum import Innum
from broker.rules.production_task.filters.insize import Insize
from tests.rules.nucleus.nucleus_builders import DAY_S, GB, NOW_S, observed, passes

# a task whose check cannot be waived: high IO intensity, low priority
STRICT: dict[str, Any] = {"iointensity": 201, "taskpriority": 799}
SIZE: list[tuple[bool, dict[str, Any]]] = [
    (False, {"any_bytes": 10 * GB}),  # the fraction must be larger
    (True, {"any_bytes": 10.01 * GB}),
    (False, {"any_bytes": 0}),
    (True, {"any_bytes": 0, "total_bytes": GB}),  # not above the threshold
    (False, {"any_bytes": 0, "total_bytes": GB + 1}),
    (True, {"any_bytes": 0, "total_bytes": 40 * GB, "INPUT_SIZE_THRESHOLD": 40}),
    (True, {"any_bytes": 6 * GB, "INPUT_SIZE_FRACTION": 5}),
    (False, {"any_bytes": 5 * GB, "INPUT_SIZE_FRACTION": 5}),
    (True, {"any_bytes": 11 * GB, "disk_bytes": 0}),  # tape counts
    (True, {"any_bytes": 5 * GB, "any_files": 1, "input_prestaging": True}),
    (False, {"any_bytes": 0, "any_files": 0, "input_prestaging": True}),
    (True, {"any_bytes": 0, "examined": False}),
    (True, {"any_bytes": 0, "frozentime_s": NOW_S - 7 * DAY_S - 1}),
    (False, {"any_bytes": 0, "frozentime_s": NOW_S - 7 * DAY_S}),
    (True, {"any_bytes": 0, "frozentime_s": NOW_S - 2 * DAY_S, "DATA_LOCATION_CHECK_PERIOD": 1}),
    (False, {"any_bytes": 0, "frozentime_s": NOW_S - 2 * DAY_S, "DATA_LOCATION_CHECK_PERIOD": 0}),
    (False, {"any_bytes": 0, "frozentime_s": None}),
]
NUMBER: list[tuple[bool, dict[str, Any]]] = [
    (False, {"any_files": 20}),
    (True, {"any_files": 21}),
    (True, {"any_files": 0, "total_files": 100}),
    (False, {"any_files": 0, "total_files": 101}),
    (True, {"any_files": 0, "total_files": 150, "INPUT_NUM_THRESHOLD": 150}),
    (True, {"any_files": 11, "INPUT_NUM_FRACTION": 5}),
    (False, {"any_files": 10, "INPUT_NUM_FRACTION": 5}),
    (True, {"any_files": 1, "input_prestaging": True}),
    (False, {"any_files": 0, "input_prestaging": True}),
    (True, {"any_files": 0, "examined": False}),
]
# no nucleus has enough: whether the check is waived
WAIVED: list[tuple[bool, dict[str, Any]]] = [
    (True, {"iointensity": 200, "taskpriority": 1}),
    (False, {"iointensity": 201, "taskpriority": 1}),
    (True, {"iointensity": None, "taskpriority": 1}),
    (True, {"iointensity": 300, "taskpriority": 1, "MIN_IO_INTENSITY_WITH_LOCAL_DATA": 300}),
    (True, {"iointensity": 1, "taskpriority": 1, "total_bytes": 10_000 * GB}),
    (False, {"iointensity": 1, "taskpriority": 1, "total_bytes": 10_000 * GB + 1}),
    (True, {"iointensity": 1, "taskpriority": 1, "total_bytes": 2 * GB, "MIN_INPUT_SIZE_WITH_LOCAL_DATA": 2}),
    (False, {"iointensity": 1, "taskpriority": 1, "total_bytes": 3 * GB, "MIN_INPUT_SIZE_WITH_LOCAL_DATA": 2}),
    (True, {"iointensity": 900, "taskpriority": 800}),
    (False, {"iointensity": 900, "taskpriority": 799}),
    (False, {"iointensity": 900, "taskpriority": 100, "currentpriority": 950}),  # the priority of the task counts
    (False, {"iointensity": 900, "taskpriority": None}),
    (True, {"iointensity": 900, "taskpriority": 500, "MAX_TASK_PRIO_WITH_LOCAL_DATA": 500}),
]


@pytest.mark.parametrize(("keep", "columns"), SIZE)
def test_volume(keep: bool, columns: dict[str, Any]) -> None:
    assert bool(passes(Insize(), STRICT | columns).item()) is keep


@pytest.mark.parametrize(("keep", "columns"), NUMBER)
def test_number_of_files(keep: bool, columns: dict[str, Any]) -> None:
    assert bool(passes(Innum(), STRICT | columns).item()) is keep


@pytest.mark.parametrize(("keep", "columns"), WAIVED)
@pytest.mark.parametrize("rule", [Insize(), Innum()], ids=lambda rule: rule.name)
def test_the_check_is_waived_or_not_when_no_nucleus_has_enough(
    rule: Insize | Innum, keep: bool, columns: dict[str, Any]
) -> None:
    assert bool(passes(rule, {"any_bytes": 0, "any_files": 0, **columns}).item()) is keep


def test_one_nucleus_with_enough_input_prevents_the_waiver() -> None:
    columns = {"iointensity": 1, "any_bytes": [0, 50 * GB], "any_files": [0, 100]}
    assert passes(Insize(), columns, nuclei=2).tolist() == [[False, True]]
    assert passes(Innum(), columns, nuclei=2).tolist() == [[False, True]]


def test_a_nucleus_rejected_before_does_not_prevent_the_waiver() -> None:
    columns = {"iointensity": 1, "any_bytes": [0, 50 * GB], "any_files": [0, 100], "initial": [True, False]}
    assert passes(Insize(), columns, nuclei=2).tolist() == [[True, True]]


def test_a_nucleus_needs_both_enough_bytes_and_enough_files() -> None:
    # the first has the bytes, the second the files: neither has both, so the check is waived for both
    columns = {"iointensity": 1, "any_bytes": [50 * GB, 0], "any_files": [0, 100]}
    assert passes(Insize(), columns, nuclei=2).tolist() == [[True, True]]
    assert passes(Insize(), {**columns, "iointensity": 900}, nuclei=2).tolist() == [[True, False]]


def test_the_check_is_waived_for_each_task_alone() -> None:
    columns = {"iointensity": [1, 900], "any_bytes": 0, "any_files": 0}
    assert passes(Insize(), columns, tasks=2).tolist() == [[True], [False]]


def test_the_explanation_is_the_share_in_percent() -> None:
    observation = observed(Insize(), {"any_bytes": 4 * GB})
    assert (observation.value, observation.operator, observation.limit, observation.unit, observation.key) == (
        4.0,
        ">",
        10.0,
        "%",
        "INPUT_SIZE_FRACTION",
    )
    observation = observed(Innum(), {"any_files": 5})
    assert (observation.value, observation.limit, observation.key) == (2.5, 10.0, "INPUT_NUM_FRACTION")
