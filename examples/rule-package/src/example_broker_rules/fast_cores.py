"""Urgent work prefers fast cores."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.rules.contract import JobPairs, Weight

USUAL_COREPOWER_HS06 = 10.0


class FastCores(Weight[JobPairs]):
    """Core power / 10 HS06 for urgent chunks, 1 for others and where the core power is not known.

    Source: agreement of the example collaboration with its sites.
    """

    name = "fast_cores"
    code = "fast_cores"
    title = "Prefers fast cores for urgent chunks"
    sources = ("queues",)
    provenance = "Example collaboration"

    def factor(self, pairs: JobPairs) -> Floats:
        """(T, Q)."""
        speed = np.where(pairs.candidates.corepower > 0, pairs.candidates.corepower / USUAL_COREPOWER_HS06, 1.0)
        return np.where(pairs.facts.urgent, speed, 1.0)
