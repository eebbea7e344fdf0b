"""When a task fails at a queue: a few of few, within hours, and not where it fails everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.domain.instants import HOUR_S
from broker.domain.task_failures import EVIDENCE, TaskFailures, failures_at

NOW_H = 500_000
NOW_S = NOW_H * HOUR_S + 1800.0


@pytest.mark.parametrize(
    ("failed", "ended", "fails"),
    [(0, 0, False), (2, 2, False), (3, 3, True), (3, 4, False), (4, 5, True), (5, 7, True), (4, 6, True), (5, 8, True),
     (5, 9, False), (3, 30, False)],
)  # fmt: skip
def test_a_few_of_few_are_enough(failed: int, ended: int, fails: bool) -> None:
    assert TaskFailures(failed, ended).fails_here(EVIDENCE) == fails


@pytest.mark.parametrize(
    ("failed", "ended", "fails"), [(0, 0, True), (2, 2, True), (3, 3, False), (2, 4, False), (1, 3, True), (3, 7, True)]
)
def test_a_task_that_fails_elsewhere_too_is_at_fault_itself(failed: int, ended: int, fails: bool) -> None:
    assert TaskFailures(9, 9, failed, ended).fails_here(EVIDENCE) == fails


@pytest.mark.parametrize(("hours_ago", "seen"), [(0, 3), (1, 3), (6, 3), (7, 0), (-1, 0)])
def test_failures_are_forgotten_after_six_hours(hours_ago: int, seen: int) -> None:
    assert failures_at({("A", NOW_H - hours_ago): (0, 3)}, "A", NOW_S).failed == seen


ENDS = st.dictionaries(
    st.tuples(st.sampled_from("ABC"), st.integers(NOW_H - 9, NOW_H)), st.tuples(st.integers(0, 9), st.integers(0, 9))
)


@given(ENDS)
def test_each_end_counts_at_one_queue_and_elsewhere_for_all_others(
    ends: dict[tuple[str, int], tuple[int, int]],
) -> None:
    at = {queue: failures_at(ends, queue, NOW_S) for queue in "ABC"}
    whole = sum(one.ended for one in at.values())
    assert all(one.ended + one.ended_elsewhere == whole for one in at.values())
    assert all(0 <= one.failed <= one.ended for one in at.values())


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_failure_more_never_opens_and_a_success_more_never_closes(failed: int, finished: int) -> None:
    here = TaskFailures(failed, failed + finished).fails_here(EVIDENCE)
    assert TaskFailures(failed + 1, failed + finished + 1).fails_here(EVIDENCE) >= here
    assert TaskFailures(failed, failed + finished + 1).fails_here(EVIDENCE) <= here
