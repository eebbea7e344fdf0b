"""The comparison with PanDA's brokers: its cached answers, and the checks that both sides did the same work."""

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
        self.requests: list[Any] = []

    def sites(self, *names: str, **_: Any) -> list[str]:
        self.requests.append(names)
        return list(names)

    def setCloudToTasks_JEDI(self, _: Any) -> bool:  # noqa: N802 - PanDA's name
        raise AssertionError("nothing is written")


def test_a_query_is_passed_on_once_and_every_answer_is_a_copy() -> None:
    target = _Buffer()
    remembered = Remembered(target)
    first = remembered.sites("a", "b")
    first.append("changed by the broker")
    assert remembered.sites("a", "b") == ["a", "b"]
    assert remembered.sites("a") == ["a"]
    assert target.requests == [("a", "b"), ("a",)]
    assert (remembered.asked, remembered.missed) == (3, 2)
    assert remembered.spent_s >= 0.0
    remembered.start_anew()
    assert remembered.sites("a") == ["a"]
    assert (remembered.asked, remembered.missed) == (1, 0)


def test_writes_are_suppressed() -> None:
    assert Remembered(_Buffer()).setCloudToTasks_JEDI({1: {}}) is True


def test_figures_are_medians_per_chunk() -> None:
    theirs = [replace(THEIRS, broker_s=value) for value in (0.4, 0.5, 9.0)]
    figures = row(theirs, [OURS, replace(OURS, cpu_s=0.004), OURS], [replace(OURS, cpu_s=0.001)])
    assert figures["panda_ms"] == pytest.approx(50.0)
    assert (figures["ms"], figures["compiled_ms"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert (figures["times"], figures["compiled_times"]) == (pytest.approx(250.0), pytest.approx(500.0))


@pytest.mark.parametrize(
    ("theirs", "ours", "rejections", "message"),
    [
        (THEIRS, replace(OURS, chunks=9), 50, "the same chunks"),
        (replace(THEIRS, missed=3), OURS, 50, "3 of PanDA's questions"),
        (replace(THEIRS, brokered=4), OURS, 50, "brokered 4 of 10"),
        (THEIRS, replace(OURS, brokered=2), 50, "brokered 2 of 10"),
        (THEIRS, OURS, 9, "logged 9 rejections"),
    ],
)
def test_figures_of_incomplete_work_are_refused(theirs: Round, ours: Cycle, rejections: int, message: str) -> None:
    check([THEIRS], [OURS], 50)
    with pytest.raises(RuntimeError, match=message):
        check([THEIRS, theirs], [OURS, ours], rejections)


def test_a_grid_without_work_for_a_brokerage_is_refused() -> None:
    without_work = replace(THEIRS, chunks=0, brokered=0), replace(OURS, chunks=0, brokered=0)
    with pytest.raises(RuntimeError, match="no work for this brokerage"):
        check([without_work[0]], [without_work[1]], 0)
