"""Input that comes from elsewhere needs space."""

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
KEY = "STORAGE_MIN_FREE_SIZE"


class InputSpace(Filter):
    """There is space for the input.

    Rejects queues without an input endpoint, and those whose default one, where it is another than that for the
    output, has not more usable space than STORAGE_MIN_FREE_SIZE. Asked in a pass without the locality check.

    Source: PanDA analysis brokerage, filters.
    """

    name = "input_space"
    code = "disk"
    title = "There is space for the input"
    keys = (KEY,)
    sources = ("storages",)
    provenance = PROVENANCE

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks with input, in a pass without the locality check."""
        return np.asarray(~of_analysis(facts).local_pass & (tasks.total_files > 0))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        known = of_analysis(facts)
        return np.asarray(known.has_input_storage & ~(known.input_usable_gb <= tuning.number(KEY)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The usable space."""
        known = of_analysis(facts)
        has_storage = flag(known.has_input_storage)
        seen = number(known.input_usable_gb) if has_storage else 0.0
        limit = None if seen is None else tuning.number(KEY)
        return Observation(seen, ">", limit, "GB", KEY, {"has_input_storage": has_storage})
