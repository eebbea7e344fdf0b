"""Which waiting jobs are taken back because jobs fail there: all at closed queues, or those of single tasks. Pure.

Jobs that were sent before a queue was found to be failing would keep failing there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from broker.domain.queue_health import kind_of
from broker.domain.task_failures import TaskFailures
from broker.lifecycle.model.jobs import WaitingJob
from broker.snapshot.sources.queue_health import LearnedHealth, LearnedQueues, failing_queues
from broker.snapshot.sources.task_failures import FailingTasks, failing_tasks

RULE = "failing_places"
TAKE_BACK = "LEARNED_TAKE_BACK"
QUEUES, QUEUE_EVIDENCE, MOST_CLOSED = "LEARNED_FAILING_QUEUES", "LEARNED_FAILING_EVIDENCE", "LEARNED_MOST_CLOSED_SHARE"
TASKS, TASK_EVIDENCE = "LEARNED_TASK_FAILS_HERE", "LEARNED_TASK_EVIDENCE"

Why = Literal["queue_unhealthy", "task_fails_here"]


class TuningReader(Protocol):
    """The part of the tuning that decides what is taken back."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...

    def flag(self, key: str) -> bool:
        """The value of a switch, or its default."""
        ...


@dataclass(frozen=True)
class FailingPlaces:
    """Where jobs fail.

    Attributes:
        closed: queues that are closed, with the kind of jobs; not those on probation, whose probe jobs stay.
        tasks: queues at which single tasks fail, by task.
    """

    closed: Mapping[tuple[str, str], LearnedHealth]
    tasks: Mapping[int, Mapping[str, TaskFailures]]

    @property
    def queues(self) -> list[str]:
        """The names of the queues at which jobs are to be checked."""
        return sorted({queue for queue, _ in self.closed} | {queue for at in self.tasks.values() for queue in at})

    def why(self, queue: str, prodsourcelabel: str | None, jeditaskid: int | None) -> Why | None:
        """The rule that takes back a job waiting at a queue; None if the job stays."""
        if (queue, kind_of(prodsourcelabel)) in self.closed:
            return "queue_unhealthy"
        return "task_fails_here" if queue in self.tasks.get(jeditaskid or 0, {}) else None


@dataclass(frozen=True)
class WaitingThere:
    """A job that waits where jobs fail."""

    job: WaitingJob
    prodsourcelabel: str | None


def failing_places(
    learned: LearnedQueues, tasks: FailingTasks, online: Sequence[str], now_s: float, tuning: TuningReader
) -> FailingPlaces:
    """Where jobs are taken back from: nowhere unless LEARNED_TAKE_BACK and the rule that keeps new ones away are on.

    Args:
        learned: the queues that are not healthy.
        tasks: the tasks with failed jobs.
        online: queues, by name; their number bounds how many are closed at once.
        now_s: the instant (s since 1970).
        tuning: the values in force.
    """
    closed: dict[tuple[str, str], LearnedHealth] = {}
    if tuning.flag(TAKE_BACK) and tuning.flag(QUEUES):
        for kind in sorted({kind for _, kind in learned}):
            names = failing_queues(learned, kind, online, tuning.number(QUEUE_EVIDENCE), tuning.number(MOST_CLOSED))
            closed |= {(name, kind): learned[name, kind] for name in names if learned[name, kind].state == "excluded"}
    by_task: dict[int, dict[str, TaskFailures]] = {}
    if tuning.flag(TAKE_BACK) and tuning.flag(TASKS):
        by_task = failing_tasks(tasks, sorted(tasks), now_s, tuning.number(TASK_EVIDENCE))
    return FailingPlaces(closed, by_task)
