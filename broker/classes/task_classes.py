"""Classes of users' tasks, S, A, B and C, by the slots that their users have at queues of class hi and mid.

Users with few slots there come first; a nearly finished task is boosted regardless of its user's slots, unless these
are very many. Pure.
Source: PanDA analysis brokerage, user evaluation and task class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.domain.analysis import CLASS_A, CLASS_B, CLASS_C, CLASS_S, SITE_HI, SITE_LO, SITE_MID
from broker.domain.classification import (
    GRID,
    USER_METRIC,
    JobsAndSlots,
    MetricRow,
    TaskProgress,
    TaskRow,
    UserJobs,
    known_or_none,
)
from broker.gdpconfig import Tuning

THRESHOLD_A, THRESHOLD_B = "USER_USAGE_THRESHOLD_A", "USER_USAGE_THRESHOLD_B"
PROGRESS_A, PROGRESS_B = "PROGRESS_TO_BOOST_A", "PROGRESS_TO_BOOST_B"
JOBS_A, JOBS_B = "MAX_REM_JOBS_TO_BOOST_A", "MAX_REM_JOBS_TO_BOOST_B"
KEYS = (THRESHOLD_A, THRESHOLD_B, PROGRESS_A, PROGRESS_B, JOBS_A, JOBS_B)

EXPRESS_SHARE = "Express Analysis"
#: Shares whose jobs count for a user.
MEASURED_SHARES = ("User Analysis", EXPRESS_SHARE)
#: Where PanDA keeps the figures of each class of queues.
SITES_KEYS = {SITE_HI: "A_sites", SITE_MID: "B_sites", SITE_LO: "C_sites"}


@dataclass(frozen=True)
class KnownSite:
    """The evaluated class of a queue, with its kind of resource."""

    site_class: int
    resource_type: str = GRID


@dataclass(frozen=True)
class ClassTerms:
    """The values of the gdpconfig keys that decide on classes: slots, percent and jobs."""

    threshold_a: float
    threshold_b: float
    progress_a: float
    progress_b: float
    jobs_a: float
    jobs_b: float

    @classmethod
    def of(cls, tuning: Tuning) -> ClassTerms:
        """The values in force."""
        view = tuning.only(KEYS)
        return cls(*(view.number(key) for key in KEYS))


@dataclass(frozen=True)
class UserEvaluation:
    """A user's jobs at queues of each class, and the slots left below the thresholds."""

    user: str
    at: Mapping[int, JobsAndSlots]
    left_a: float
    left_b: float
    ratio_a: float
    ratio_b: float

    @property
    def document(self) -> dict[str, Any]:
        """The evaluation in PanDA's shape."""
        sites = {key: self.at.get(site_class, JobsAndSlots()).document for site_class, key in SITES_KEYS.items()}
        left = {"rem_slots_A": int(self.left_a), "rem_slots_B": int(self.left_b)}
        ratios = {"rem_slot_ratio_A": self.ratio_a, "rem_slot_ratio_B": self.ratio_b}
        return {"user": self.user, **sites, **left, **ratios}


@dataclass(frozen=True)
class TaskEvaluation:
    """The class of a task."""

    task: TaskProgress
    task_class: int

    def row(self) -> TaskRow:
        """The row in PanDA's shape."""
        task = self.task
        return TaskRow(
            task.jeditaskid,
            {
                "task_id": task.jeditaskid,
                "user": task.user,
                "gshare": task.share,
                "n_files_total": task.files,
                "n_files_finished": task.finished,
                "n_files_failed": task.failed,
                "pct_finished": known_or_none(task.percent_finished),
                "pct_failed": known_or_none(task.percent_failed),
                "class": self.task_class,
            },
        )


def evaluate_users(
    jobs: Iterable[UserJobs], sites: Mapping[str, KnownSite], terms: ClassTerms
) -> dict[str, UserEvaluation]:
    """Evaluate, by name, the users with jobs at grid queues whose class is known."""
    by_user: dict[str, dict[int, JobsAndSlots]] = {}
    for user_jobs in jobs:
        site = sites.get(user_jobs.queue)
        if site is None or site.resource_type != GRID:
            continue
        by_class = by_user.setdefault(user_jobs.user, {})
        by_class[site.site_class] = by_class.get(site.site_class, JobsAndSlots()).plus(user_jobs.counts)
    return {user: _user(user, by_user[user], terms) for user in sorted(by_user)}


def _user(user: str, at: Mapping[int, JobsAndSlots], terms: ClassTerms) -> UserEvaluation:
    hi, mid = (at.get(site_class, JobsAndSlots()).slots_running for site_class in (SITE_HI, SITE_MID))
    left_a, left_b = max(terms.threshold_a - hi, 0.0), max(terms.threshold_b - hi - mid, 0.0)
    return UserEvaluation(user, at, left_a, left_b, left_a / terms.threshold_a, left_b / terms.threshold_b)


def user_row(users: Mapping[str, UserEvaluation]) -> MetricRow:
    """One row with all users, in PanDA's shape."""
    return MetricRow(USER_METRIC, {user: one.document for user, one in users.items()})


def class_by_user(task: TaskProgress, users: Mapping[str, UserEvaluation]) -> int | None:
    """The class of a task before any boost; None if nothing is known about its user."""
    if task.share == EXPRESS_SHARE:
        return CLASS_S
    user = users.get(task.user)
    if user is None:
        return None
    if user.left_a > 0:
        return CLASS_A
    return CLASS_B if user.left_b > 0 else CLASS_C


def may_be_helped(task: TaskProgress, class_of_user: int | None, terms: ClassTerms) -> bool:
    """Whether enough of the input is done; only then must the remaining jobs be counted."""
    if class_of_user not in (CLASS_A, CLASS_B):
        return False
    # without files the percentage is NaN, which is never enough
    return task.percent_finished >= (terms.progress_a if class_of_user == CLASS_A else terms.progress_b)


def evaluate_task(
    task: TaskProgress, users: Mapping[str, UserEvaluation], jobs: Mapping[int, int], terms: ClassTerms
) -> TaskEvaluation | None:
    """The class of a task; None if nothing is known about its user.

    Args:
        task: the task with its progress.
        users: the evaluated users.
        jobs: number of jobs that each task had, for tasks that :func:`may_be_helped`.
        terms: terms of the classes.
    """
    task_class = class_by_user(task, users)
    if task_class is None:
        return None
    if may_be_helped(task, task_class, terms):
        most = terms.jobs_a if task_class == CLASS_A else terms.jobs_b
        if 0 < jobs_left(task, jobs.get(task.jeditaskid, 0)) <= most:
            task_class = CLASS_S
    return TaskEvaluation(task, task_class)


def jobs_left(task: TaskProgress, jobs: int) -> int:
    """Expected number of jobs for the unfinished files of a task, by its jobs so far."""
    remaining = max(task.files - task.finished - task.failed, 0)
    return jobs * remaining // task.files if task.files > 0 else 0
