"""Rebrokerage of users' jobs: which submissions make no progress at their queue. Pure.

A submission is judged as a whole, by how long it has waited and by whether any of its jobs was active recently.
Source: PanDA, timeout and rebrokerage rules, analysis rebrokerage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from broker.lifecycle.model.jobs import JobTable, Queue

RULE = "analysis_rebrokerage"
IMMEDIATELY = ("offline", "test")
"""Statuses of queues at which neither the timeout nor recent activity matters."""

Outcome = Literal["rebrokered", "unknown_queue", "exempt", "time_unknown", "too_young", "fresh", "active"]


@dataclass(frozen=True)
class JobSet:
    """Jobs of one submission of a user that wait at a queue. Times are naive UTC, as PanDA stores them.

    Attributes:
        table: ``jobsactive4`` for activated and starting jobs, ``jobsdefined4`` for defined and assigned ones.
        jeditaskid: the task.
        jobdefinitionid: the submission.
        produsername: the user.
        queue: where they wait.
        workinggroup: the group that they were submitted for; None for the user's own.
        waits_since: when the first of them was activated, or the last of them created; None when unknown.
        active_at: when another job of the submission last changed its state there, other than by failing, being closed
            or starting; None when none did within the period that was read.
    """

    table: JobTable
    jeditaskid: int
    jobdefinitionid: int
    produsername: str | None
    queue: str
    workinggroup: str | None
    waits_since: datetime | None
    active_at: datetime | None = None


@dataclass(frozen=True)
class AnalysisLimits:
    """The limits in force, in seconds.

    Attributes:
        timeout_s: of sets without a group, and of groups without a value of their own.
        by_group_s: of groups that have one.
        activity_s: the age up to which activity still counts.
        least_wait_s: sets that have waited for less are not considered.
    """

    timeout_s: float
    by_group_s: Mapping[str, float]
    activity_s: float
    least_wait_s: float

    def of(self, group: str | None) -> float:
        """The timeout for a group."""
        return self.by_group_s.get(group, self.timeout_s) if group else self.timeout_s


@dataclass(frozen=True)
class SetVerdict:
    """The decision about a set.

    Attributes:
        jobs: the set.
        outcome: what is done, or why nothing is.
        value_s: how long it has waited; None when unknown.
        limit_s: the limit that this was compared with.
        exceptions: why the queue is exempt.
    """

    jobs: JobSet
    outcome: Outcome
    value_s: float | None
    limit_s: float
    exceptions: tuple[str, ...] = ()


def check_job_set(jobs: JobSet, queue: Queue | None, limits: AnalysisLimits, now: datetime) -> SetVerdict:
    """Judge one set at ``now`` (naive UTC). A set that has waited exactly as long as the timeout is rebrokered.

    Args:
        jobs: the set.
        queue: its queue; None when it is not on record.
        limits: the limits in force.
        now: the instant.
    """
    immediately = queue is not None and queue.status in IMMEDIATELY
    limit_s = limits.least_wait_s if immediately else limits.of(jobs.workinggroup)
    value_s = None if jobs.waits_since is None else (now - jobs.waits_since).total_seconds()
    outcome = _outcome(jobs, queue, limits, now, value_s, immediately=immediately)
    return SetVerdict(jobs, outcome, value_s, limit_s, queue.exceptions if queue is not None else ())


def _outcome(
    jobs: JobSet,
    queue: Queue | None,
    limits: AnalysisLimits,
    now: datetime,
    value_s: float | None,
    *,
    immediately: bool,
) -> Outcome:
    if queue is None or not queue.known:
        return "unknown_queue"
    if queue.exceptions:
        return "exempt"
    if value_s is None:
        return "time_unknown"
    if value_s <= limits.least_wait_s:
        return "too_young"
    if immediately:
        return "rebrokered"
    if value_s < limits.of(jobs.workinggroup):
        return "fresh"
    if jobs.active_at is not None and jobs.active_at > now - timedelta(seconds=limits.activity_s):
        return "active"
    return "rebrokered"
