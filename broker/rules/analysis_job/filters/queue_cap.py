"""Queues with many waiting jobs get no more."""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import LEAST_RUNNING, WAITING_TIMES, AnalysisFacts
from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.rules.contract import AnalysisPairs, Filter, Reason
from broker.rules.shared.observing import number

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
    sources = ("jobs",)
    provenance = PROVENANCE
    pair_by_pair = True

    @property
    def compiled_step(self) -> str:
        """The step of the compiled loop that judges again what a cycle has placed, equal to the bit."""
        return "queue_cap"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that do not name their one queue."""
        return np.asarray(~pairs.facts.site_named)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where not too many jobs wait at the queue."""
        return np.asarray(pairs.facts.queued_of_type <= _limit(pairs.facts))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Queued jobs of the share and resource type at the queue."""
        limit = number(_limit(pairs.facts))
        running = number(pairs.facts.running_of_type)
        return Observation(number(pairs.facts.queued_of_type), "<=", limit, "jobs", "rule", {"running": running})


def _limit(facts: AnalysisFacts) -> Floats:
    return np.asarray(WAITING_TIMES * np.maximum(LEAST_RUNNING, facts.running_of_type))
