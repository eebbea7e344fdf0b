"""A job must not be too short for the queue."""

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
from broker.rules.walltime import reachable_walltime_s, walltime_inputs


class Longwalltime(Filter):
    """Rejects queues whose ``mintime`` (s; 0 and NULL are no limit) is longer than the expected walltime.

    An undefined walltime is too short. Not for merging. Source: ATLAS Production Job Brokerage, estimated walltime.
    """

    name = "longwalltime"
    code = "longwalltime"
    title = "The expected walltime is not shorter than the queue wants"
    sources = ("queues",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are not merged."""
        return np.asarray(~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q), or (1, Q) while no queue has a shortest time."""
        limit = time_limit_s(candidates.mintime_s, -np.inf)
        unlimited = limit == -np.inf
        if unlimited.all():
            return np.asarray(unlimited)
        return np.asarray(unlimited | (reachable_walltime_s(tasks, candidates, facts) >= limit))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The expected walltime; None where it is undefined."""
        expected = number(reachable_walltime_s(tasks, candidates, facts))
        limit = limit_number(time_limit_s(candidates.mintime_s, -np.inf))
        return Observation(expected, ">=", limit, "s", "queue.mintime", walltime_inputs(tasks, candidates))
