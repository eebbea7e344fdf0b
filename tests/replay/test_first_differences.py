"""What a failing replay of a stored case shows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker.decisions.answers.replay import Difference, Replayed, replayed_file
from tests.replay.first_differences import REMEDY, first_differences

CASE = Path(__file__).parent / "cases" / "analysis_job.json.gz"


@pytest.fixture(scope="module")
def replayed() -> Replayed:
    """Some decision of a stored case."""
    return next(one for cycle in replayed_file(CASE, whole=False) for one in cycle)


def shown(replayed: Replayed, *differences: Difference, count: int = 1, fault: str = "") -> list[str]:
    one = dataclasses.replace(replayed, differences=differences, fault=fault)
    return first_differences([one] * count, 90).splitlines()


@pytest.mark.slow
def test_the_field_and_both_values(replayed: Replayed) -> None:
    first, second, *rest = shown(replayed, Difference("assigned.Q", 22, None))
    assert first == f"1 of 90 decisions differ; {REMEDY}"
    assert second.startswith(f"decision {replayed.stored.id} (task ")
    assert rest == ["  assigned.Q", "    stored 22", "    again  null"]


@pytest.mark.parametrize(
    ("stored", "again", "wanted"),
    [
        (["a", "b"], ["a", "c"], ("[1]", '"b"', '"c"')),
        (["a"], ["a", "c"], ("[1]", "null", '"c"')),
        (["a", "b"], [], ("[0]", '"a"', "null")),
    ],
)
def test_of_lists_the_first_item_that_differs(replayed: Replayed, stored: Any, again: Any, wanted: Any) -> None:
    place, before, after = wanted
    lines = shown(replayed, Difference("order", stored, again))
    assert lines[2:] == [f"  order{place}", f"    stored {before}", f"    again  {after}"]


def test_a_decision_that_could_not_be_made(replayed: Replayed) -> None:
    assert shown(replayed, fault="no tuning")[1].endswith(": no tuning")


def test_much_is_cut_and_counted(replayed: Replayed) -> None:
    lines = shown(replayed, *[Difference(f"notes.{n}", "x" * 30_000, n) for n in range(9)], count=50)
    assert len("\n".join(lines)) < 3000
    assert lines.count("  and 6 more fields") == 3
    assert lines[-1] == "  and 47 more decisions"
