"""Jobs of unknown length need queues that run jobs for a day."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason
from broker.rules.shared.walltime_rules import OneDayOptions, keeps_a_day, observed_day


class MinWalltime(Filter[JobPairs]):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit) is shorter than a day, for merging or undefined walltime.

    Scouts have a rule of their own. Source: ATLAS Production Job Brokerage, 24 hours.
    """

    name = "min_walltime"
    same_in_passes = True
    reason = Reason(
        code="min_walltime",
        title="The queue runs jobs for at least 24 hours, for merging or undefined walltime",
        violation="The queue stops jobs before 24 hours, and the length of the jobs is unknown",
        no_candidate="allows a day of walltime for jobs of unknown length",
        who="you",
        cure="State how long the jobs take (`walltime` or `cpuTime` of the task; `prun --cpuTimePerEvent`). Merge jobs "
        "need a queue of 24 hours: the site raises `maxtime`.",
    )
    sources = ("queues",)
    options: OneDayOptions = OneDayOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that merge or have an undefined walltime, except scouts."""
        return np.asarray(~pairs.chunks.scout & self.options.unestimated(pairs))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q), or (T, Q) by capacity."""
        return keeps_a_day(pairs, self.options)

    def observe(self, pairs: JobPairs) -> Observation:
        """The longest time of the queue, or its capacity; no limit if the queue has none."""
        return observed_day(pairs, self.options)
