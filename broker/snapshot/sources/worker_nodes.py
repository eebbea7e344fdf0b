"""The source ``worker_nodes``: CPU architecture levels of queues, from the summary of their worker nodes."""

from __future__ import annotations

import math

from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, not_negative
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES

Levels = tuple[dict[str, float], ...]


class WorkerNodes(GridSource[Levels]):
    """CPU architecture levels; refreshed every hour."""

    name = "worker_nodes"
    reads = (
        TableRead(
            "mv_worker_node_summary",
            ("panda_queue", "cpu_architecture_level", "pct_within_pq"),
            where="cpu_architecture_level IS NOT NULL",
            table_optional=True,
        ),
    )
    limit = SourceLimit(max_age_s=86_400.0)
    aged_by = "mv_worker_node_summary"

    def build(self, raw: RawSource, draft: Draft) -> Levels:
        """Build the percentage of each unified queue's logical CPUs by level."""
        return build_cpu_levels(raw, draft.of(QUEUES).rows, draft.dropped_rows)


WORKER_NODES = WorkerNodes()


def build_cpu_levels(
    source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]
) -> tuple[dict[str, float], ...]:
    """Percentage of each unified queue's logical CPUs by architecture level, summed over the sites of the queue."""
    levels: tuple[dict[str, float], ...] = tuple({} for _ in unified)
    for row in source.rows("mv_worker_node_summary").records():
        queue, level = unified.get(row["panda_queue"]), row["cpu_architecture_level"]
        if queue is None or not level:
            continue
        try:
            percent = not_negative(row["pct_within_pq"], "pct_within_pq")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("worker_nodes", str(row["panda_queue"])[:80], bad.code, str(bad)))
            continue
        if not math.isnan(percent):
            levels[queue][level] = min(100.0, levels[queue].get(level, 0.0) + percent)
    return levels
