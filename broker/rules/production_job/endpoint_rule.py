"""The shape of the four rules on the storage endpoints of a queue, each about one activity of them.

Source: ATLAS Production Job Brokerage, storage endpoints.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs
from broker.rules.production_job.storage_order import FREE_SPACE, MIN_FREE_GB
from broker.rules.shared.observing import flag


class EndpointRule(Filter[JobPairs]):
    """Rejects queues without an endpoint that does what is needed; asked after the checks before it passed."""

    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    reads = (FREE_SPACE,)

    @abstractmethod
    def works(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q): whether some endpoint of the queue does what is needed."""

    @abstractmethod
    def asked(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q): the checks before this one hold."""

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q)."""
        return np.asarray(self.works(pairs) | ~self.asked(pairs))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether an endpoint works, and whether an earlier check fails."""
        works, asked = flag(self.works(pairs)), flag(self.asked(pairs))
        return Observation(works or not asked, "==", True, "-", "rule", {"works": works, "asked": asked})
