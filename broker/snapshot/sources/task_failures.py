"""The source ``task_failures``: recent job ends by queue, for tasks with several failures at one queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.domain.task_failures import TaskFailures, TaskHours, failures_at
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead
from broker.snapshot.sources.queue_health import MAX_AGE_S

TASK_FAILURES = "task_failures"
#: Tasks with fewer failures at every queue are left out, since they never have enough evidence.
FAILED_LEAST = 2

FailingTasks = Mapping[int, TaskHours]
"""Hours by jeditaskid."""


class TaskFailuresSource(Source):
    """The job ends of tasks with failures, as stored by the agent ``outcomes``."""

    name = TASK_FAILURES
    reads = (
        StatementRead(
            name=TASK_FAILURES,
            columns_stored=("jeditaskid", "queue", "hour_number", "finished", "failed"),
            statement="SELECT jeditaskid, queue, hour_number, finished, failed FROM broker.task_ends"  # noqa: S608
            " WHERE jeditaskid IN (SELECT jeditaskid FROM broker.task_ends"
            f" GROUP BY jeditaskid, queue HAVING sum(failed) >= {FAILED_LEAST})"
            " ORDER BY jeditaskid, queue, hour_number",
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> FailingTasks:
        """Build the ends by task, then by queue and hour."""
        return failing_tasks_of(raw)


def failing_tasks_of(raw: RawSource) -> FailingTasks:
    """The tasks in the rows of the source."""
    tasks: dict[int, dict[tuple[str, int], tuple[int, int]]] = {}
    for row in raw.rows(TASK_FAILURES).records():
        hours = tasks.setdefault(int(row["jeditaskid"]), {})
        hours[str(row["queue"]), int(row["hour_number"])] = (int(row["finished"]), int(row["failed"]))
    return tasks


def failing_tasks(
    tasks: FailingTasks, wanted: Iterable[int], now_s: float, evidence: float
) -> dict[int, dict[str, TaskFailures]]:
    """The queues at which each of the wanted tasks fails, with the ends there and elsewhere."""
    result: dict[int, dict[str, TaskFailures]] = {}
    for task in wanted:
        hours = tasks[task]
        ends = {queue: failures_at(hours, queue, now_s) for queue in sorted({name for name, _ in hours})}
        failing = {queue: failures for queue, failures in ends.items() if failures.fails_here(evidence)}
        if failing:
            result[task] = failing
    return result
