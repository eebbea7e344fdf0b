"""A job of known length must not be too short for the queue."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools
from broker.rules.shared.walltime_capacity import demand
from broker.rules.shared.walltime_rules import ShortestTimeRule


class TooShort(ShortestTimeRule[AnalysisPairs]):
    """Rejects queues whose ``mintime`` is longer than the expected walltime; an undefined one is not compared.

    Not for merging. Source: ATLAS Analysis Job Brokerage, estimated walltime.
    """

    name = "too_short"
    same_in_passes = True
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that are not merged and have an estimate."""
        estimated = ~pairs.chunks.merging & ~pairs.facts.walltime_undefined
        if self.options.by_capacity:
            estimated &= demand(pairs.chunks, pairs.facts) > 0
        return np.asarray(estimated)
