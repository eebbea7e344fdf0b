"""The storage of the nucleus must be open over WAN."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag


class NucleusEndpoint(Filter):
    """Keeps only queues at the nucleus while its default output endpoint does not receive or send over WAN.

    Source: ATLAS Production Job Brokerage, storage endpoints of the nucleus (``write_wan`` and ``read_wan``).
    """

    name = "nucleus_endpoint"
    code = "dest_blacklisted"
    title = "The storage of the nucleus receives and sends files over WAN"
    kind = "temporary"
    sources = ("storages",)
    unknown_policy = "keep"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks whose nucleus is closed."""
        return np.asarray(facts.has_nucleus & ~facts.nucleus_wan)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return facts.at_nucleus

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether output can get to the nucleus."""
        wan, here = flag(facts.nucleus_wan), flag(facts.at_nucleus)
        return Observation(wan or here, "==", True, "-", "rule", {"nucleus_wan": wan, "at_nucleus": here})
