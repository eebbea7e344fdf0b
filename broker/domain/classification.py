"""Inputs and results of the classes of queues, users and tasks, and of the usage of shares.

Inputs are columns of sample jobs and counts by queue, user, task and share. Results are rows of PanDA's ``metrics``
(:class:`MetricRow`) and ``task_evaluation`` (:class:`TaskRow`). ``DEFAULT_SHARE`` is the share with a meaning of its
own. Times are in s, usage is in cores or HS06.

Source: PanDA analysis brokerage, classes; PanDA data model, metrics and task_evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from broker.domain.arrays import Floats, Texts

SHARE_METRIC = "gshare_preference"
WAIT_METRIC = "analy_pmerge_jobs_wait_time"
SITE_METRIC = "analy_site_eval"
USER_METRIC = "analy_user_eval"
TASK_METRIC = "analy_task_eval"

#: Unused key columns of PanDA's metrics hold this text.
NO_KEY = "NULL"
#: The kind of resource whose queues set the limits between classes, and at which users are measured.
GRID = "GRID"
#: Names of the classes, by number.
SITE_CLASS_NAMES = {1: "hi", 0: "mid", -1: "lo"}
TASK_CLASS_NAMES = {2: "S", 1: "A", 0: "B", -1: "C"}


@dataclass(frozen=True)
class QueueAbout:
    """CRIC's data about a queue; a queue without ``resource_type`` belongs to the grid."""

    resource_type: str = GRID
    workflow: str | None = None
    corepower: float = math.nan


@dataclass(frozen=True)
class WaitSamples:
    """Columns of sample jobs: the queue, seconds from activated to running, seconds since they started to run."""

    queue: Texts
    wait_s: Floats
    age_s: Floats


@dataclass(frozen=True)
class QueuedSamples:
    """Columns of merge jobs that wait now: the queue, the status, seconds since their creation."""

    queue: Texts
    status: Texts
    queued_s: Floats


@dataclass(frozen=True)
class SlotStarts:
    """Slots of started jobs by queue, and the period in hours."""

    slots: Mapping[str, float]
    hours: float

    def rate(self, queue: str) -> float:
        """Slots that start jobs per hour."""
        return self.slots.get(queue, 0.0) / self.hours


@dataclass(frozen=True)
class JobsAndSlots:
    """Jobs and slots of a user at some queues."""

    queued: float = 0.0
    running: float = 0.0
    slots_queued: float = 0.0
    slots_running: float = 0.0

    def plus(self, more: JobsAndSlots) -> JobsAndSlots:
        """The counts at these and other queues."""
        return JobsAndSlots(
            self.queued + more.queued,
            self.running + more.running,
            self.slots_queued + more.slots_queued,
            self.slots_running + more.slots_running,
        )

    @property
    def document(self) -> dict[str, int]:
        """The counts in PanDA's shape."""
        return {
            "nQueue": int(self.queued),
            "nRunning": int(self.running),
            "slotsQueue": int(self.slots_queued),
            "slotsRunning": int(self.slots_running),
        }


@dataclass(frozen=True)
class UserJobs:
    """Jobs and slots of one user at one queue."""

    user: str
    queue: str
    counts: JobsAndSlots


@dataclass(frozen=True)
class TaskProgress:
    """A task of a user, and its progress through the input."""

    jeditaskid: int
    user: str
    share: str | None
    files: int
    finished: int
    failed: int

    @property
    def percent_finished(self) -> float:
        """Percentage of finished files; NaN for a task without files."""
        return 100.0 * self.finished / self.files if self.files > 0 else math.nan

    @property
    def percent_failed(self) -> float:
        """Percentage of failed files; NaN for a task without files."""
        return 100.0 * self.failed / self.files if self.files > 0 else math.nan


class ShareCount(NamedTuple):
    """Cores of a share's running (or sent), or else activated, jobs at a queue; HS06 if no queue is named."""

    share: str | None
    queue: str | None
    is_running: bool
    amount: float


@dataclass(frozen=True)
class MetricRow:
    """A row of ``metrics`` for one instant."""

    metric: str
    document: Mapping[str, Any]
    computingsite: str = NO_KEY
    gshare: str = NO_KEY


@dataclass(frozen=True)
class TaskRow:
    """A row of ``task_evaluation`` for one instant."""

    jeditaskid: int
    document: Mapping[str, Any]
    metric: str = TASK_METRIC


def known_or_none(value: float) -> float | None:
    """``value`` in a form valid in JSON: None in place of NaN and infinity."""
    return float(value) if math.isfinite(value) else None


DEFAULT_SHARE = "default"
"""The share of tasks that name none, if it is on record."""
