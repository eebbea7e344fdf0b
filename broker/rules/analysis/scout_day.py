"""Scouts of users need a day."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import TuningView
from broker.rules.filters.scout_walltime import ScoutWalltime


class ScoutDay(ScoutWalltime):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit) is shorter than a day, for scouts.

    At the one queue that a task names, only scouts that merge or whose walltime is undefined. Source: ATLAS Analysis
    Job Brokerage, 24 hours; PanDA analysis brokerage, walltime.
    """

    name = "scout_day"
    provenance = "ATLAS Analysis Job Brokerage"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are scouts."""
        unestimated = tasks.merging | facts.walltime_undefined
        return np.asarray(tasks.scout & (~of_analysis(facts).site_named | unestimated))
