"""Queues with more of the CPUs that a task prefers are better."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import Floats, RowsByKind
from broker.rules.contract import JobPairs, Options, Weight


class CpuLevelOptions(Options):
    """Which tasks have a preference.

    Attributes:
        without_release: a task that names no release has one like others, or has none.
    """

    without_release: Literal["counts", "none"] = "counts"


class CpuLevel(Weight[JobPairs]):
    """``1 + p / 100``, where ``p`` is the percentage of the queue's logical CPUs that are of the preferred level.

    1 for a task without a preference and for a queue whose nodes are unknown. Source: PanDA production brokerage,
    architecture preference.
    """

    name = "cpu_level"
    code = "cpu_level"
    title = "The share of the queue's CPUs that are of the level the task prefers"
    sources = ("worker_nodes",)
    options: CpuLevelOptions = CpuLevelOptions()

    def factor(self, pairs: JobPairs) -> Floats | RowsByKind:
        """(T, Q): between 1 and 2."""
        percent = pairs.facts.by_kind("preferred_cpu_percent")
        factors = percent.of_table(1.0 + percent.table / 100.0)
        without_release = [home is None for home in pairs.chunks.transhome.ravel().tolist()]
        if self.options.without_release == "counts" or not any(without_release):
            return factors
        return np.where(np.array(without_release)[:, None], 1.0, factors.every)
