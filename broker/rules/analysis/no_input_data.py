"""The input must be at the queue."""

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


class NoInputData(Filter):
    """The input is at the queue.

    Rejects queues without the input of the chunk. Suppressed for urgent tasks, tasks of little IO and tasks that
    have waited long, and in the second pass.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "no_input_data"
    code = "no_input_data"
    title = "The input is at the queue"
    sources = ("storages",)
    provenance = PROVENANCE

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks in a pass with the locality check."""
        return of_analysis(facts).local_pass

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(of_analysis(facts).has_input)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the input is there."""
        has_input = flag(of_analysis(facts).has_input)
        return Observation(has_input, "==", True, "-", "rule", {"input_bytes": number(tasks.total_bytes)})
