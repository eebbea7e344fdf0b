"""Queues with many waiting jobs get no more."""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.waiting_limit import waiting_limit
from broker.rules.contract import (
    AnalysisPairs,
    Bools,
    CompiledStep,
    Filter,
    Floats,
    Observation,
    Reason,
    TuningView,
    number,
)

#: Waiting jobs allowed for each running one, and the least number of running jobs assumed. Source: queued against
#: running.
WAITING_TIMES, LEAST_RUNNING = 2.0, 20.0
PROVENANCE = "ATLAS Analysis Job Brokerage"


class QueueCap(Filter[AnalysisPairs]):
    """Not too many jobs wait at the queue.

    Rejects queues with more queued jobs than 2 x max(20, running), of the share and the resource type. Not for
    the one queue that a task names.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "queue_cap"
    reason = Reason(
        code="queue_cap",
        title="Not too many jobs wait at the queue",
        violation="Enough jobs wait at the queue already",
        no_candidate="has room for more waiting jobs",
        who="wait",
        cure="Wait: the queue takes more as its jobs start.",
    )
    kind = "temporary"
    temporary_issue = True
    moving = True
    sources = ("jobs",)
    provenance = PROVENANCE
    pair_by_pair = True
    waiting_times: float = WAITING_TIMES
    least_running: float = LEAST_RUNNING

    @property
    def compiled_step(self) -> CompiledStep:
        """The step of the compiled loop that judges again with placed jobs, bit for bit the same."""
        return CompiledStep("queue_cap", {"waiting_times": self.waiting_times, "least_running": self.least_running})

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~pairs.facts.site_named)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where not too many jobs wait at the queue."""
        return np.asarray(pairs.facts.queued_of_type <= self._limit(pairs.facts))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Queued jobs of the share and resource type at the queue."""
        limit = number(self._limit(pairs.facts))
        running = number(pairs.facts.running_of_type)
        return Observation(number(pairs.facts.queued_of_type), "<=", limit, "jobs", "rule", {"running": running})

    def may_reject(self, facts: AnalysisFacts, tuning: TuningView) -> Bools:
        """(T, Q): true above the least possible limit."""
        return np.asarray(facts.queued_of_type > self.waiting_times * self.least_running)

    def _limit(self, facts: AnalysisFacts) -> Floats:
        at_least = self.waiting_times * self.least_running
        return np.asarray(waiting_limit(at_least, self.waiting_times, facts.running_of_type))
