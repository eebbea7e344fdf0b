"""What jobs of a simulated task ask for once some of its jobs have ended: by its scouts, or by a learned quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from broker.domain.quantiles import asked_memory_mb, learned_quantile

Requests = Literal["asked", "scouts", "learned"]
#: Finished jobs from which a task is looked at, and then each time that their number has doubled, up to the last.
FIRST_JOBS, LAST_JOBS = 5, 1000
LEARNED_RANK, LEARNED_LEAST, LEARNED_MARGIN = 95.0, 20, 1.1


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

    def ended(self, by: Requests, used_mb: float, *, killed: bool) -> None:
        """A job has ended; it used so much, or was killed at it."""
        (self.killed if killed else self.finished).append(used_mb)
        number = len(self.finished) + len(self.killed)
        if len(self.finished) < FIRST_JOBS or number < 2 * self.seen or self.seen >= LAST_JOBS:
            return
        self.seen = number
        if by == "scouts":
            self.request_mb = float(asked_memory_mb(1024.0 * np.array(self.finished)))
            return
        learned = learned_quantile(np.array(self.finished), np.array(self.killed), LEARNED_RANK, LEARNED_LEAST)
        if not math.isnan(learned.ask):
            self.request_mb = LEARNED_MARGIN * learned.ask
