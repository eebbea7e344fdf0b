"""Event service does not use the single-core part of unified queues."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.core_counts import is_multi_core
from broker.rules.observing import flag, number, text
from broker.rules.preassigned import not_single


class EsUcore(Filter):
    """Rejects pseudo-queues of one core for event service without job cloning. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "es_ucore"
    code = "es_ucore"
    title = "Event service keeps off single-core pseudo-queues"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Event service chunks."""
        return np.asarray(facts.event_service & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(is_multi_core(candidates) | (candidates.resource_type == np.array(None)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue is a pseudo-queue of one core."""
        rejected = not flag(self.keep(tasks, candidates, facts, tuning))
        inputs: dict[str, Value] = {"cores": number(candidates.cores), "resource_type": text(candidates.resource_type)}
        return Observation(rejected, "==", False, "-", "queue.corecount", inputs)
