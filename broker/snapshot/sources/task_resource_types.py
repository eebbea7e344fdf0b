"""The source ``task_resource_types``: the resource types of the jobs of tasks at queues."""

from __future__ import annotations

from collections.abc import Mapping

from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

TASK_RESOURCE_TYPES = "task_resource_types"
#: Lowest share of a task's jobs at a queue with which a resource type counts there. Source: PanDA production brokerage,
#: caps by resource type.
LEAST_PERCENT = 20.0


class TaskResourceTypes(Source):
    """The resource types of the jobs that each task has at each queue."""

    name = TASK_RESOURCE_TYPES
    reads = tuple(
        TableRead(table, ("jeditaskid", "computingsite", "resource_type"), counted=True)
        for table in ("jobsactive4", "jobsdefined4")
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[int, Mapping[str, frozenset[str]]]:
        """Build, by task and queue, the types with at least 20 % of the task's jobs there."""
        jobs: dict[tuple[int, str], dict[str, int]] = {}
        for read in self.reads:
            for row in raw.rows(read.name).records():
                if row["jeditaskid"] is None or row["computingsite"] is None or row["resource_type"] is None:
                    continue
                kinds = jobs.setdefault((int(row["jeditaskid"]), row["computingsite"]), {})
                kinds[row["resource_type"]] = kinds.get(row["resource_type"], 0) + int(row["counted"])
        by_task: dict[int, dict[str, frozenset[str]]] = {}
        for (task, queue), kinds in jobs.items():
            total = sum(kinds.values())
            often = frozenset(kind for kind, count in kinds.items() if count * 100.0 / total >= LEAST_PERCENT)
            by_task.setdefault(task, {})[queue] = often
        return by_task
