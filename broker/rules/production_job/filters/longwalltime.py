"""A job must not be too short for the queue."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, JobPairs
from broker.rules.shared.walltime_rules import ShortestTimeRule


class Longwalltime(ShortestTimeRule[JobPairs]):
    """Rejects queues whose ``mintime`` (s; 0 and NULL are no limit) is longer than the expected walltime.

    An undefined walltime is too short. Not for merging. Source: ATLAS Production Job Brokerage, estimated walltime.
    """

    name = "longwalltime"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are not merged."""
        return np.asarray(~pairs.chunks.merging | self.options.merging)
