"""Queues with more of the CPUs that a task prefers are better."""

from __future__ import annotations

from broker.domain.arrays import RowsByKind
from broker.rules.contract import JobPairs, Weight


class CpuLevel(Weight[JobPairs]):
    """``1 + p / 100``, where ``p`` is the percentage of the queue's logical CPUs that are of the preferred level.

    1 for a task without a preference and where nothing is known of the queue's nodes. Source: PanDA production
    brokerage, architecture preference.
    """

    name = "cpu_level"
    code = "cpu_level"
    title = "The share of the queue's CPUs that are of the level the task prefers"
    sources = ("worker_nodes",)

    def factor(self, pairs: JobPairs) -> RowsByKind:
        """(T, Q): between 1 and 2."""
        percent = pairs.facts.by_kind("preferred_cpu_percent")
        return percent.of_table(1.0 + percent.table / 100.0)
