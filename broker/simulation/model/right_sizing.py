"""Memory requests of a simulated task's jobs, as the agent ``task_sizing`` derives them from kind, scouts and jobs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from broker.domain.memory_prior import UsedMemory, memory_prior, used_memory
from broker.domain.quantiles import enough_of_kind, learned_quantile, memory_request_mb
from broker.domain.sizing_values import FIRST_JOBS, LAST_JOBS, SizingValues, sizing_values
from broker.gdpconfig import Tuning

Requests = Literal["asked", "scouts", "learned", "both", "prior"]


@cache
def shipped_values() -> SizingValues:
    """The shipped values, by which requests are learned in every scenario."""
    return sizing_values(Tuning.defaults().number)


@dataclass
class NeedsOfKind:
    """Known memory needs of tasks, by kind and number.

    Attributes:
        asks: learned needs of tasks, in MB.
        used: memory that their jobs used.
    """

    asks: dict[str, dict[int, float]] = field(default_factory=dict)
    used: dict[str, dict[int, UsedMemory]] = field(default_factory=dict)

    def used_of(self, kinds: Collection[str]) -> list[UsedMemory]:
        """Memory used by jobs of these kinds, one entry a task."""
        return [used for kind in kinds for used in self.used.get(kind, {}).values()]


@dataclass
class MemoryRecord:
    """Memory that ended jobs of a task used, in MB of the whole job.

    Attributes:
        finished, killed: memory of finished jobs, and of killed jobs at the moment they were killed.
        request_mb: current request of its jobs; None for the original one.
        seen: number of ended jobs at the last evaluation.
    """

    finished: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    request_mb: float | None = None
    seen: int = 0

    @property
    def used(self) -> UsedMemory | None:
        """Memory that the jobs used; None unless the task has just been evaluated."""
        if not self.seen or self.seen != len(self.finished) + len(self.killed):
            return None
        return used_memory(np.array(self.finished), np.array(self.killed))

    def ended(self, by: Requests, used_mb: float, *, killed: bool) -> float | None:
        """Add a job that ended with this memory, or was killed at it. Returns the learned need if it is new."""
        (self.killed if killed else self.finished).append(used_mb)
        number = len(self.finished) + len(self.killed)
        if len(self.finished) < FIRST_JOBS or number < 2 * self.seen or self.seen >= LAST_JOBS:
            return None
        self.seen = number
        if by != "learned":
            self.request_mb = float(memory_request_mb(1024.0 * np.array(self.finished)))
        if by == "scouts":
            return None
        values = shipped_values()
        learned = learned_quantile(np.array(self.finished), np.array(self.killed), values.rank, values.least_jobs)
        if math.isnan(learned.ask):
            return None
        self.request_mb = values.with_margin(learned.ask)
        return learned.ask


def record_of_new(
    by: Requests,
    needs_mb: Collection[float],
    kind: Sequence[UsedMemory] = (),
    wider: Sequence[UsedMemory] = (),
    request_mb: float = math.nan,
) -> MemoryRecord:
    """The record of an arriving task; with learned requests, its jobs request what is enough for its kind.

    If that is not known, they request the bounded prior, in the order of the agent.

    Args:
        by: how its jobs get their requests.
        needs_mb: learned needs of tasks of its kind.
        kind: memory used by tasks of its kind.
        wider: memory used by tasks of the wider kind, including its own.
        request_mb: original request of the task.
    """
    values = shipped_values()
    enough = math.nan if by == "scouts" else enough_of_kind([*needs_mb])
    if math.isnan(enough) and by == "prior":
        prior = memory_prior(kind, wider, request_mb, values.prior.rank, values.prior_tasks)
        enough = math.nan if prior is None else prior.bounded_mb(values.prior.least_share)
    return MemoryRecord(request_mb=None if math.isnan(enough) else values.with_margin(enough))
