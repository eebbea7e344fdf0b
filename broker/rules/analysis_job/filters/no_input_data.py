"""The input must be at the queue."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, flag, number

PROVENANCE = "ATLAS Analysis Job Brokerage"


class NoInputData(Filter[AnalysisPairs]):
    """The input is at the queue.

    Rejects queues without the input of the chunk. Disabled for urgent tasks, tasks of little IO and tasks that have
    waited long, and in the second pass.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "no_input_data"
    reason = Reason(
        code="no_input_data",
        title="The input is at the queue",
        violation="The input is not at the queue",
        no_candidate="has the input",
        who="wait",
        cure="Wait until the input is copied or the task may run without it nearby; or copy the input to the site with "
        "a replication rule in Rucio.",
    )
    sources = ("storages",)
    provenance = PROVENANCE

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks in a pass with the locality check."""
        return pairs.facts.local_pass

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the input is at the queue."""
        return np.asarray(pairs.facts.has_input)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue has the input."""
        has_input = flag(pairs.facts.has_input)
        return Observation(has_input, "==", True, "-", "rule", {"input_bytes": number(pairs.chunks.total_bytes)})
