"""Scouts of analysis tasks need queues that run jobs for a day."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools
from broker.rules.shared.walltime_rules import OneDayRule


class ScoutDay(OneDayRule[AnalysisPairs]):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit) is shorter than a day, for scouts.

    At the one queue that a task names, only scouts that merge or whose walltime is undefined. Source: ATLAS Analysis
    Job Brokerage, 24 hours; PanDA analysis brokerage, walltime.
    """

    name = "scout_day"
    same_in_passes = True
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that are scouts."""
        return np.asarray(pairs.chunks.scout & (~pairs.facts.site_named | self.options.unestimated(pairs)))
