"""Event service does not use the single-core part of unified queues."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, Value, flag, number, text
from broker.rules.shared.core_counts import is_multi_core


class EsUcore(Filter[JobPairs]):
    """Rejects pseudo-queues of one core for event service without job cloning. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, settings for event service.
    """

    name = "es_ucore"
    reason = Reason(
        code="es_ucore",
        title="Event service keeps off single-core pseudo-queues",
        violation="The part of the queue for single cores takes no event service jobs",
        no_candidate="has several cores for event service",
        who="wait",
        cure="Nothing is wrong: the other parts of the queue take event service jobs.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks of event service, unless exactly one queue is pre-assigned."""
        return np.asarray(pairs.facts.event_service & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true except at pseudo-queues of one core."""
        return np.asarray(is_multi_core(pairs.candidates) | (pairs.candidates.resource_type == np.array(None)))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether the queue is a pseudo-queue of one core."""
        rejected = not flag(self.keep(pairs))
        inputs: dict[str, Value] = {
            "cores": number(pairs.candidates.cores),
            "resource_type": text(pairs.candidates.resource_type),
        }
        return Observation(rejected, "==", False, "-", "queue.corecount", inputs)
