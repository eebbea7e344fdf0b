"""The source ``task_failures``: how jobs ended lately, by queue, of tasks of which several failed at one queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.domain.task_failures import TaskFailures, TaskHours, failures_at
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead
from broker.snapshot.sources.queue_health import MAX_AGE_S

TASK_FAILURES = "task_failures"
#: Tasks without so many failures at one queue are left out: no evidence is that small.
FAILED_LEAST = 2

FailingTasks = Mapping[int, TaskHours]
"""By jeditaskid."""


class TaskFailuresSource(Source):
    """The ends of tasks of which jobs failed, as the agent ``outcomes`` left them."""

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
        """Build, by task, its ends by queue and hour."""
        return failing_tasks_of(raw)


def failing_tasks_of(raw: RawSource) -> FailingTasks:
    """The tasks of the rows of the source."""
    found: dict[int, dict[tuple[str, int], tuple[int, int]]] = {}
    for row in raw.rows(TASK_FAILURES).records():
        hours = found.setdefault(int(row["jeditaskid"]), {})
        hours[str(row["queue"]), int(row["hour_number"])] = (int(row["finished"]), int(row["failed"]))
    return found


def failing_tasks(
    tasks: FailingTasks, wanted: Iterable[int], now_s: float, evidence: float
) -> dict[int, dict[str, TaskFailures]]:
    """The queues at which each of the wanted tasks fails, with the ends there and elsewhere."""
    found: dict[int, dict[str, TaskFailures]] = {}
    for task in wanted:
        hours = tasks[task]
        ends = {queue: failures_at(hours, queue, now_s) for queue in sorted({name for name, _ in hours})}
        failing = {queue: one for queue, one in ends.items() if one.fails_here(evidence)}
        if failing:
            found[task] = failing
    return found
