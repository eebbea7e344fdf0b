"""Queues with many waiting jobs get no more."""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import LEAST_RUNNING, WAITING_TIMES
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number

PROVENANCE = "ATLAS Analysis Job Brokerage"


class QueueCap(Filter):
    """Not too many jobs wait at the queue.

    Rejects queues with more queued jobs than 2 x max(20, running), of the share and the resource type. Not for
    the one queue that a task names.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "queue_cap"
    code = "queue_cap"
    title = "Not too many jobs wait at the queue"
    kind = "temporary"
    sources = ("jobs",)
    provenance = PROVENANCE

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~of_analysis(facts).site_named)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(of_analysis(facts).queued_of_type <= _limit(facts))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The queued jobs."""
        limit = number(_limit(facts))
        running = number(of_analysis(facts).running_of_type)
        return Observation(number(of_analysis(facts).queued_of_type), "<=", limit, "jobs", "rule", {"running": running})


def _limit(facts: JobFacts) -> Floats:
    return np.asarray(WAITING_TIMES * np.maximum(LEAST_RUNNING, of_analysis(facts).running_of_type))
