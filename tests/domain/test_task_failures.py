"""When a task fails at a queue: after few failures within hours, but not if it fails everywhere."""

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
def test_few_failures_of_few_jobs_are_enough(failed: int, ended: int, fails: bool) -> None:
    assert TaskFailures(failed, ended).fails_here(EVIDENCE) == fails


@pytest.mark.parametrize(
    ("failed", "ended", "fails"), [(0, 0, True), (2, 2, True), (3, 3, False), (2, 4, False), (1, 3, True), (3, 7, True)]
)
def test_a_task_that_also_fails_elsewhere_is_at_fault_itself(failed: int, ended: int, fails: bool) -> None:
    assert TaskFailures(9, 9, failed, ended).fails_here(EVIDENCE) == fails


@pytest.mark.parametrize(("hours_ago", "failed"), [(0, 3), (1, 3), (6, 3), (7, 0), (-1, 0)])
def test_failures_are_forgotten_after_six_hours(hours_ago: int, failed: int) -> None:
    assert failures_at({("A", NOW_H - hours_ago): (0, 3)}, "A", NOW_S).failed == failed


ENDS = st.dictionaries(
    st.tuples(st.sampled_from("ABC"), st.integers(NOW_H - 9, NOW_H)), st.tuples(st.integers(0, 9), st.integers(0, 9))
)


@given(ENDS)
def test_each_end_counts_at_its_queue_and_elsewhere_for_the_others(
    ends: dict[tuple[str, int], tuple[int, int]],
) -> None:
    failures = {queue: failures_at(ends, queue, NOW_S) for queue in "ABC"}
    total = sum(counts.ended for counts in failures.values())
    assert all(counts.ended + counts.ended_elsewhere == total for counts in failures.values())
    assert all(0 <= counts.failed <= counts.ended for counts in failures.values())


@given(st.integers(0, 50), st.integers(0, 50))
def test_another_failure_never_opens_and_another_success_never_closes(failed: int, finished: int) -> None:
    fails = TaskFailures(failed, failed + finished).fails_here(EVIDENCE)
    assert TaskFailures(failed + 1, failed + finished + 1).fails_here(EVIDENCE) >= fails
    assert TaskFailures(failed, failed + finished + 1).fails_here(EVIDENCE) <= fails
