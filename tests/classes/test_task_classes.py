"""Evaluation of users and classes of their tasks: values computed by hand, with both sides of every boundary."""

from __future__ import annotations

import json
import math

import pytest

from broker.classes.task_classes import (
    ClassTerms,
    KnownSite,
    UserEvaluation,
    class_by_user,
    evaluate_task,
    evaluate_users,
    jobs_left,
    may_be_helped,
    user_row,
)
from broker.domain.classification import JobsAndSlots, TaskProgress, UserJobs
from broker.gdpconfig import Tuning

TERMS = ClassTerms.of(Tuning.defaults())
SITES = {"HI": KnownSite(1), "MID": KnownSite(0), "LO": KnownSite(-1), "HPC": KnownSite(1, "hpc")}
ODD = 'o\'Brien "x" {y}: \\ ü\u202e\n'


def jobs(user: str, queue: str, running: float = 0, slots: float = 0, waiting: float = 0) -> UserJobs:
    return UserJobs(user, queue, JobsAndSlots(waiting, running, waiting, slots))


def user_with(hi: float, mid: float, terms: ClassTerms = TERMS) -> UserEvaluation:
    return evaluate_users([jobs("u", "HI", 1, hi), jobs("u", "MID", 1, mid)], SITES, terms)["u"]


def task(share: str | None = "User Analysis", files: int = 100, finished: int = 0, failed: int = 0) -> TaskProgress:
    return TaskProgress(7, "u", share, files, finished, failed)


def test_defaults_match_the_specification() -> None:
    assert ClassTerms(1000.0, 8000.0, 90.0, 95.0, 500.0, 200.0) == TERMS


def test_users_are_evaluated_by_queue_class() -> None:
    rows = [
        jobs("alice", "HI", running=3, slots=24, waiting=5),
        jobs("alice", "HI", running=1, slots=1),
        jobs("alice", "MID", running=2, slots=16, waiting=1),
        jobs("alice", "LO", running=7, slots=70),
        jobs("alice", "HPC", running=9, slots=900),
        jobs("alice", "UNKNOWN", running=9, slots=900),
        jobs("bob", "HPC", running=1, slots=1),
        jobs(ODD, "LO", waiting=2),
    ]
    users = evaluate_users(rows, SITES, TERMS)
    assert sorted(users) == ["alice", ODD]
    assert users["alice"].document == {
        "user": "alice",
        "A_sites": {"nQueue": 5, "nRunning": 4, "slotsQueue": 5, "slotsRunning": 25},
        "B_sites": {"nQueue": 1, "nRunning": 2, "slotsQueue": 1, "slotsRunning": 16},
        "C_sites": {"nQueue": 0, "nRunning": 7, "slotsQueue": 0, "slotsRunning": 70},
        "rem_slots_A": 975,
        "rem_slots_B": 7959,
        "rem_slot_ratio_A": 0.975,
        "rem_slot_ratio_B": 7959 / 8000,
    }
    row = user_row(users)
    assert (row.metric, row.computingsite, row.gshare) == ("analy_user_eval", "NULL", "NULL")
    assert json.loads(json.dumps(row.document, allow_nan=False))[ODD]["C_sites"]["nQueue"] == 2


def test_without_users_the_row_is_an_empty_object() -> None:
    assert user_row(evaluate_users([], SITES, TERMS)).document == {}


@pytest.mark.parametrize(
    ("hi", "mid", "expected", "left"),
    [
        (0, 0, 1, (1000, 8000)),
        (999, 99999, 1, (1, 0)),
        (1000, 0, 0, (0, 7000)),
        (1001, 6998, 0, (0, 1)),
        (1000, 7000, -1, (0, 0)),
        (8000, 0, -1, (0, 0)),
        (20000, 20000, -1, (0, 0)),
    ],
)
def test_classes_by_slots(hi: int, mid: int, expected: int, left: tuple[int, int]) -> None:
    user = user_with(hi, mid)
    assert (user.left_a, user.left_b) == left
    assert class_by_user(task(), {"u": user}) == expected


def test_express_tasks_are_class_s_and_unknown_users_have_no_class() -> None:
    assert class_by_user(task("Express Analysis"), {}) == 2
    assert class_by_user(task(), {}) is None
    assert class_by_user(task(None), {"v": user_with(0, 0)}) is None
    assert evaluate_task(task(), {}, {}, TERMS) is None


@pytest.mark.parametrize(
    ("slots", "files", "finished", "failed", "jobs_made", "expected"),
    [
        # class A: 90 %, at most 500 jobs left
        (0, 1000, 899, 0, 1000, 1),
        (0, 1000, 900, 0, 1000, 2),
        (0, 10000, 9000, 0, 5000, 2),  # 500 left
        (0, 10000, 9000, 0, 5010, 1),  # 501 left
        (0, 10000, 9000, 0, 5009, 2),  # 500.9 left
        (0, 1000, 1000, 0, 1000, 1),  # none left
        (0, 1000, 900, 100, 1000, 1),  # none left: the rest has failed
        (0, 1000, 900, 99, 1000, 2),
        (0, 1000, 950, 0, 19, 1),  # 0.95 of a job counts as none
        (0, 1000, 950, 0, 20, 2),
        (0, 1000, 950, 0, 0, 1),
        (0, 0, 0, 0, 10, 1),
        (0, 10, 12, 0, 10, 1),  # more files finished than the task has
        # class B: 95 %, at most 200 jobs left
        (1000, 1000, 949, 0, 1000, 0),
        (1000, 1000, 950, 0, 1000, 2),
        (1000, 1000, 950, 0, 4000, 2),  # 200 left
        (1000, 1000, 950, 0, 4020, 0),  # 201 left
        # class C is never helped
        (8000, 1000, 999, 0, 1000, -1),
    ],
)
def test_tasks_that_are_nearly_done(
    slots: int, files: int, finished: int, failed: int, jobs_made: int, expected: int
) -> None:
    progress = task(files=files, finished=finished, failed=failed)
    evaluation = evaluate_task(progress, {"u": user_with(slots, 0)}, {7: jobs_made}, TERMS)
    assert evaluation is not None
    assert evaluation.task_class == expected


def test_jobs_are_counted_only_for_tasks_that_may_be_helped() -> None:
    nearly_done = task(files=10, finished=9)
    assert may_be_helped(nearly_done, 1, TERMS)
    assert not may_be_helped(nearly_done, 0, TERMS)
    assert not any(may_be_helped(nearly_done, task_class, TERMS) for task_class in (2, -1, None))
    assert not may_be_helped(task(files=0), 1, TERMS)
    assert jobs_left(task(files=0), 10) == 0


def test_the_row_of_a_task() -> None:
    evaluation = evaluate_task(task(files=8, finished=2, failed=1), {"u": user_with(1000, 0)}, {}, TERMS)
    assert evaluation is not None
    row = evaluation.row()
    assert (row.jeditaskid, row.metric) == (7, "analy_task_eval")
    assert row.document == {
        "task_id": 7,
        "user": "u",
        "gshare": "User Analysis",
        "n_files_total": 8,
        "n_files_finished": 2,
        "n_files_failed": 1,
        "pct_finished": 25.0,
        "pct_failed": 12.5,
        "class": 0,
    }
    without_files = evaluate_task(task(files=0), {"u": user_with(0, 0)}, {}, TERMS)
    assert without_files is not None and math.isnan(without_files.task.percent_finished)
    assert (without_files.row().document["pct_finished"], without_files.row().document["pct_failed"]) == (None, None)


def test_tuning_keys_change_the_limits() -> None:
    values = {"USER_USAGE_THRESHOLD_A": 10, "PROGRESS_TO_BOOST_B": 50, "MAX_REM_JOBS_TO_BOOST_B": 1}
    terms = ClassTerms.of(Tuning.defaults().with_values(values))
    users = {"u": user_with(10, 0, terms)}
    assert class_by_user(task(), users) == 0
    evaluations = [evaluate_task(task(files=4, finished=2), users, {7: job_count}, terms) for job_count in (2, 4)]
    assert [evaluation.task_class for evaluation in evaluations if evaluation] == [2, 0]
