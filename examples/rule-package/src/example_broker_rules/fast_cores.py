"""Urgent work prefers fast cores."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import TuningView, Weight

USUAL_COREPOWER_HS06 = 10.0


class FastCores(Weight):
    """Core power / 10 HS06 for urgent chunks, 1 for others and where the core power is not known.

    Source: agreement of the example collaboration with its sites.
    """

    name = "fast_cores"
    code = "fast_cores"
    title = "Prefers fast cores for urgent chunks"
    sources = ("queues",)
    provenance = "Example collaboration"

    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """(T, Q)."""
        speed = np.where(candidates.corepower > 0, candidates.corepower / USUAL_COREPOWER_HS06, 1.0)
        return np.where(facts.express, speed, 1.0)
