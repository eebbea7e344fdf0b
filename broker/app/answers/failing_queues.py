"""Queues at which jobs of many tasks fail lately."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.app.answers.alarm_limits import AlarmLimits
from broker.app.answers.asking import Asking
from broker.store.answers.job_outcomes import EndedJobs, ended_jobs


@dataclass(frozen=True)
class QueueOutcomes:
    """Jobs that ended at a queue lately: ``is_failing`` when many of many tasks failed."""

    queue: str
    failed: int
    finished: int
    tasks_failed: int
    since: datetime | None
    is_failing: bool

    @property
    def failed_percent(self) -> float:
        """Of all jobs that ended."""
        return 100.0 * self.failed / max(1, self.failed + self.finished)


def failing_queues(asking: Asking, limits: AlarmLimits | None = None) -> dict[str, QueueOutcomes]:
    """The queues at which jobs ended within the time that is looked at, by name."""
    used = limits or AlarmLimits()
    since = asking.now - timedelta(hours=used.failing_hours)
    ended = ended_jobs(asking.connection, asking.catalogue, since, asking.now)
    return {one.queue: one for one in outcomes_of(ended, used)}


def outcomes_of(ended: Iterable[EndedJobs], limits: AlarmLimits) -> list[QueueOutcomes]:
    """Which queues fail: enough failed jobs, of enough tasks, and a large enough part of all that ended. Pure."""
    found = []
    for one in ended:
        percent = 100.0 * one.failed / max(1, one.failed + one.finished)
        many = one.failed >= limits.failing_jobs and one.tasks_failed >= limits.failing_tasks
        found.append(
            QueueOutcomes(
                one.queue,
                one.failed,
                one.finished,
                one.tasks_failed,
                one.first_failed,
                many and percent >= limits.failing_percent,
            )
        )
    return found
