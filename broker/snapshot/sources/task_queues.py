"""The source ``task_queues``: the queues with the output of tasks."""

from __future__ import annotations

from collections.abc import Mapping

from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

TASK_QUEUES = "task_queues"


class TaskQueues(Source):
    """The queues of the output and log datasets of tasks."""

    name = TASK_QUEUES
    reads = (
        TableRead(
            "jedi_datasets",
            ("jeditaskid", "site", "type"),
            where="type IN ('output', 'log') AND site IS NOT NULL",
            counted=True,
        ),
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[int, frozenset[str]]:
        """Build the unified queues by task; a pseudo-queue stands for its unified queue."""
        unified = dict(zip(snapshot.queues.name.tolist(), snapshot.queues.unified_name.tolist(), strict=True))
        by_task: dict[int, set[str]] = {}
        for row in raw.rows("jedi_datasets").records():
            by_task.setdefault(int(row["jeditaskid"]), set()).add(str(unified.get(row["site"], row["site"])))
        return {task: frozenset(queues) for task, queues in by_task.items()}
