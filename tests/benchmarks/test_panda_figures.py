"""What the comparison with PanDA's brokers measures: answers from memory, and figures of both sides' work only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.panda.figures import Cycle, Round, check, row
from benchmarks.panda.remembered import Remembered

THEIRS = Round(chunks=10, brokered=9, failed=1, broker_s=0.5, answers_s=0.1, missed=0)
OURS = Cycle(chunks=10, brokered=8, jobs=40, cpu_s=0.002)


class _Buffer:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    def sites(self, *names: str, **_: Any) -> list[str]:
        self.asked.append(names)
        return list(names)

    def setCloudToTasks_JEDI(self, _: Any) -> bool:  # noqa: N802 - PanDA's name
        raise AssertionError("nothing is written")


def test_a_question_is_passed_on_once_and_each_answer_is_new() -> None:
    target = _Buffer()
    remembered = Remembered(target)
    first = remembered.sites("a", "b")
    first.append("changed by the broker")
    assert remembered.sites("a", "b") == ["a", "b"]
    assert remembered.sites("a") == ["a"]
    assert target.asked == [("a", "b"), ("a",)]
    assert (remembered.asked, remembered.missed) == (3, 2)
    assert remembered.spent_s >= 0.0
    remembered.start_anew()
    assert remembered.sites("a") == ["a"]
    assert (remembered.asked, remembered.missed) == (1, 0)


def test_what_would_be_written_is_not() -> None:
    assert Remembered(_Buffer()).setCloudToTasks_JEDI({1: {}}) is True


def test_figures_are_medians_a_chunk() -> None:
    theirs = [replace(THEIRS, broker_s=value) for value in (0.4, 0.5, 9.0)]
    found = row(theirs, [OURS, replace(OURS, cpu_s=0.004), OURS], [replace(OURS, cpu_s=0.001)])
    assert found["panda_ms"] == pytest.approx(50.0)
    assert (found["ms"], found["compiled_ms"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert (found["times"], found["compiled_times"]) == (pytest.approx(250.0), pytest.approx(500.0))


@pytest.mark.parametrize(
    ("theirs", "ours", "rejections", "said"),
    [
        (THEIRS, replace(OURS, chunks=9), 50, "the same chunks"),
        (replace(THEIRS, missed=3), OURS, 50, "3 of PanDA's questions"),
        (replace(THEIRS, brokered=4), OURS, 50, "brokered 4 of 10"),
        (THEIRS, replace(OURS, brokered=2), 50, "brokered 2 of 10"),
        (THEIRS, OURS, 9, "logged 9 rejections"),
    ],
)
def test_no_figures_of_work_that_was_not_done(theirs: Round, ours: Cycle, rejections: int, said: str) -> None:
    check([THEIRS], [OURS], 50)
    with pytest.raises(RuntimeError, match=said):
        check([THEIRS, theirs], [OURS, ours], rejections)


def test_a_grid_without_work_for_a_brokerage_is_said() -> None:
    nothing = replace(THEIRS, chunks=0, brokered=0), replace(OURS, chunks=0, brokered=0)
    with pytest.raises(RuntimeError, match="no work for this brokerage"):
        check([nothing[0]], [nothing[1]], 0)
