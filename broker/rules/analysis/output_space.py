"""The storage for the output must have space."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, number

PROVENANCE = "ATLAS Analysis Job Brokerage"
KEY = "STORAGE_MIN_FREE_SIZE_OUTPUT"


class OutputSpace(Filter):
    """There is space for the output.

    Rejects queues without an output endpoint, and those whose default one has not more usable space (free and
    expired, without what is to stay free or cannot be used) than STORAGE_MIN_FREE_SIZE_OUTPUT. An endpoint that
    is not on record is not asked.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "output_space"
    code = "disk"
    title = "There is space for the output"
    keys = (KEY,)
    sources = ("storages",)
    provenance = PROVENANCE

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        known = of_analysis(facts)
        return np.asarray(known.has_output & ~(known.output_usable_gb <= tuning.number(KEY)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The usable space."""
        known = of_analysis(facts)
        seen = number(known.output_usable_gb) if flag(known.has_output) else 0.0
        limit = tuning.number(KEY)
        return Observation(
            seen, ">", None if seen is None else limit, "GB", KEY, {"has_output": flag(known.has_output)}
        )
