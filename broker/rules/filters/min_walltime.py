"""Jobs of unknown length need a day."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import limit_number
from broker.rules.walltime import ONE_DAY_S, has_short_limit


class MinWalltime(Filter):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit) is shorter than a day, for merging or undefined walltime.

    Scouts have a rule of their own. Source: ATLAS Production Job Brokerage, 24 hours.
    """

    name = "min_walltime"
    code = "min_walltime"
    title = "The queue runs jobs for at least 24 hours, for merging or undefined walltime"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are merging or undefined walltime."""
        unestimated = tasks.merging | facts.walltime_undefined
        return np.asarray(~tasks.scout & unestimated)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(~has_short_limit(candidates))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The longest time of the queue; no limit where it has none."""
        longest = limit_number(candidates.maxtime_s) or None
        return Observation(longest, ">=", ONE_DAY_S if longest else None, "s", "rule", {"maxtime_s": longest})
