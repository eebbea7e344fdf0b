"""What jobs of a simulated task ask for: as the agent ``task_sizing`` finds by its kind, its scouts and its jobs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from broker.domain.memory_prior import UsedMemory, memory_prior, used_memory
from broker.domain.quantiles import asked_memory_mb, enough_of_kind, learned_quantile
from broker.domain.sizing_values import FIRST_JOBS, LAST_JOBS, SizingValues, sizing_values
from broker.gdpconfig import Tuning

Requests = Literal["asked", "scouts", "learned", "both", "prior"]


@cache
def shipped_values() -> SizingValues:
    """The values as they are shipped, by which requests are learned in every scenario."""
    return sizing_values(Tuning.defaults().number)


@dataclass
class NeedsOfKind:
    """What is known of tasks, by kind and number.

    Attributes:
        asks: what they were found to need, in MB.
        used: what their jobs used.
    """

    asks: dict[str, dict[int, float]] = field(default_factory=dict)
    used: dict[str, dict[int, UsedMemory]] = field(default_factory=dict)

    def used_of(self, kinds: Collection[str]) -> list[UsedMemory]:
        """What jobs of tasks of these kinds used, by task."""
        return [one for kind in kinds for one in self.used.get(kind, {}).values()]


@dataclass
class MemoryRecord:
    """Memory that ended jobs of a task used, in MB of the whole job.

    Attributes:
        finished, killed: of jobs that finished, and what killed ones had when they were killed.
        request_mb: what its jobs ask for; None: what they asked for at first.
        seen: jobs that had ended when it was last looked at.
    """

    finished: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    request_mb: float | None = None
    seen: int = 0

    @property
    def used(self) -> UsedMemory | None:
        """What the jobs used, where the task was looked at just now."""
        if not self.seen or self.seen != len(self.finished) + len(self.killed):
            return None
        return used_memory(np.array(self.finished), np.array(self.killed))

    def ended(self, by: Requests, used_mb: float, *, killed: bool) -> float | None:
        """A job has ended; it used so much, or was killed at it. What the task is found to need, where that is new."""
        (self.killed if killed else self.finished).append(used_mb)
        number = len(self.finished) + len(self.killed)
        if len(self.finished) < FIRST_JOBS or number < 2 * self.seen or self.seen >= LAST_JOBS:
            return None
        self.seen = number
        if by != "learned":
            self.request_mb = float(asked_memory_mb(1024.0 * np.array(self.finished)))
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
    """The record of a task that arrives; with learned requests its jobs ask for what is enough for its kind.

    Where that is not known, they ask for the prior, bounded, in the order of the agent.

    Args:
        by: how its jobs get their requests.
        needs_mb: what tasks of its kind were found to need.
        kind: what tasks of its kind used.
        wider: what those of the wider kind used, its own among them.
        request_mb: what it asks for.
    """
    values = shipped_values()
    enough = math.nan if by == "scouts" else enough_of_kind([*needs_mb])
    if math.isnan(enough) and by == "prior":
        prior = memory_prior(kind, wider, request_mb, values.prior.rank, values.prior_tasks)
        enough = math.nan if prior is None else prior.bounded_mb(values.prior.least_share)
    return MemoryRecord(request_mb=None if math.isnan(enough) else values.with_margin(enough))
