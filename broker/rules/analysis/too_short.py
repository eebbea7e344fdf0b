"""A job must not be too short for the queue, where its time is known."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.domain.work import WorkTable
from broker.rules.contract import TuningView
from broker.rules.filters.longwalltime import Longwalltime


class TooShort(Longwalltime):
    """Rejects queues whose ``mintime`` is longer than the expected walltime; an undefined one is not compared.

    Not for merging. Source: ATLAS Analysis Job Brokerage, estimated walltime.
    """

    name = "too_short"
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are not merged and have an estimate."""
        return np.asarray(~tasks.merging & ~facts.walltime_undefined)
