"""A job must end within the longest time of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.estimates import time_limit_s
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import limit_number, number
from broker.rules.walltime import longest_walltime_s, walltime_inputs


class Shortwalltime(Filter):
    """Rejects queues whose ``maxtime`` (s; 0 and NULL are no limit) is shorter than the expected walltime.

    Not for merging; an undefined walltime is not compared. Source: ATLAS Production Job Brokerage, estimated walltime.
    """

    name = "shortwalltime"
    code = "shortwalltime"
    title = "The expected walltime is not longer than the queue allows"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are not merged."""
        return np.asarray(~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        limit = time_limit_s(candidates.maxtime_s, np.inf)
        return np.asarray(~(longest_walltime_s(tasks, candidates, facts) > limit))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The expected walltime; no limit where it is undefined."""
        expected = number(longest_walltime_s(tasks, candidates, facts))
        limit = None if expected is None else limit_number(time_limit_s(candidates.maxtime_s, np.inf))
        return Observation(expected, "<=", limit, "s", "queue.maxtime", walltime_inputs(tasks, candidates))
