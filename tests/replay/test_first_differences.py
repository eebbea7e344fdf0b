"""The output of a failing replay of a stored case."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker.decisions.answers.replay import Difference, ReplayResult, replayed_file
from tests.replay.first_differences import REMEDY, first_differences

CASE = Path(__file__).parent / "cases" / "analysis_job.json.gz"


@pytest.fixture(scope="module")
def replayed() -> ReplayResult:
    """One decision of a stored case."""
    return next(decision for cycle in replayed_file(CASE, whole=False) for decision in cycle)


def difference_lines(replayed: ReplayResult, *differences: Difference, count: int = 1, fault: str = "") -> list[str]:
    result = dataclasses.replace(replayed, differences=differences, fault=fault)
    return first_differences([result] * count, 90).splitlines()


@pytest.mark.slow
def test_the_field_and_both_values_are_shown(replayed: ReplayResult) -> None:
    first, second, *rest = difference_lines(replayed, Difference("assigned.Q", 22, None))
    assert first == f"1 of 90 decisions differ; {REMEDY}"
    assert second.startswith(f"decision {replayed.stored.id} (task ")
    assert rest == ["  assigned.Q", "    stored 22", "    again  null"]


@pytest.mark.parametrize(
    ("stored", "again", "expected"),
    [
        (["a", "b"], ["a", "c"], ("[1]", '"b"', '"c"')),
        (["a"], ["a", "c"], ("[1]", "null", '"c"')),
        (["a", "b"], [], ("[0]", '"a"', "null")),
    ],
)
def test_the_first_differing_item_of_lists_is_shown(
    replayed: ReplayResult, stored: Any, again: Any, expected: Any
) -> None:
    place, before, after = expected
    lines = difference_lines(replayed, Difference("order", stored, again))
    assert lines[2:] == [f"  order{place}", f"    stored {before}", f"    again  {after}"]


def test_the_fault_of_an_unrepeatable_decision_is_shown(replayed: ReplayResult) -> None:
    assert difference_lines(replayed, fault="no tuning")[1].endswith(": no tuning")


def test_long_output_is_truncated_and_counted(replayed: ReplayResult) -> None:
    lines = difference_lines(replayed, *[Difference(f"notes.{n}", "x" * 30_000, n) for n in range(9)], count=50)
    assert len("\n".join(lines)) < 3000
    assert lines.count("  and 6 more fields") == 3
    assert lines[-1] == "  and 47 more decisions"
