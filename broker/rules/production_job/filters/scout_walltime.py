"""Scouts need queues that run jobs for a day."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, JobPairs
from broker.rules.shared.walltime_rules import OneDayRule


class ScoutWalltime(OneDayRule[JobPairs]):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit) is shorter than a day, for scouts.

    With a single pre-assigned queue, only scouts that merge or whose walltime is undefined. Source: ATLAS Production
    Job Brokerage, 24 hours.
    """

    name = "scout_walltime"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are scouts."""
        unestimated = pairs.chunks.merging | pairs.facts.walltime_undefined
        return np.asarray(pairs.chunks.scout & (~pairs.facts.one_preassigned | unestimated))
