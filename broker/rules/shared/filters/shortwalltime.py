"""A job must end within the longest time of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.decisions import CPUTIME, WALLTIME
from broker.domain.estimates import time_limit_s
from broker.domain.queues import QueueTable
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, limit_number, number
from broker.rules.shared.by_kind import keep_by_kind
from broker.rules.shared.walltime import longest_walltime, walltime_inputs
from broker.rules.shared.walltime_capacity import WalltimeOptions, capacity, exceeds, least_demand

#: The columns of a queue that are compared.
_COMPARED = ("maxtime_s", "mintime_s", "cores", "corepower")


class Shortwalltime(Filter[JobPairs]):
    """Rejects queues whose ``maxtime`` (s; 0 and NULL are no limit) is shorter than the expected walltime.

    Not for merging; an undefined walltime is not compared. Source: ATLAS Production Job Brokerage, estimated walltime.
    """

    name = "shortwalltime"
    same_in_passes = True
    reason = Reason(
        code="shortwalltime",
        title="The expected walltime is not longer than the queue allows",
        violation="The job runs longer than the queue allows",
        no_candidate="allows so long a walltime",
        who="you",
        cure="Make the jobs shorter: fewer events or less input for each (`nEventsPerJob`, `nFilesPerJob` or "
        "`nGBPerJob` of the task, and the options of `prun` of the same names), or more cores (`coreCount`; `prun "
        "--nCore`). Where the task states more time than its jobs take, lower `walltime`, or `cpuTime` (`prun "
        "--cpuTimePerEvent`, in HS06 s). `broker explain TASK` says at which value a queue is left.",
        requests=(WALLTIME, CPUTIME),
        limit="queue.maxtime",
    )
    sources = ("queues",)
    options: WalltimeOptions = WalltimeOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are not merged."""
        return np.asarray(~pairs.chunks.merging | self.options.merging)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the expected walltime is not longer than the queue allows."""
        if self.options.by_capacity:
            return np.asarray(~exceeds(pairs.chunks, pairs.candidates, pairs.facts))
        expected = longest_walltime(pairs.chunks, pairs.facts)

        def ends(some: QueueTable) -> Bools:
            return np.asarray(~expected.compared(some, time_limit_s(some.maxtime_s, np.inf), np.greater))

        return keep_by_kind(pairs.candidates, _COMPARED, ends)

    def observe(self, pairs: JobPairs) -> Observation:
        """The expected walltime, or the need of the job; no limit where it is undefined."""
        if self.options.by_capacity:
            room = number(capacity(pairs.chunks, pairs.candidates, pairs.candidates.maxtime_s))
            needed = number(least_demand(pairs.chunks, pairs.candidates, pairs.facts))
            limited = bool(limit_number(pairs.candidates.maxtime_s)) and needed is not None and needed > 0
            inputs = walltime_inputs(pairs.chunks, pairs.candidates)
            return Observation(needed, "<=", room if limited else None, "HS06s", "queue.maxtime", inputs)
        expected = number(longest_walltime(pairs.chunks, pairs.facts).at(pairs.candidates))
        limit = None if expected is None else limit_number(time_limit_s(pairs.candidates.maxtime_s, np.inf))
        return Observation(expected, "<=", limit, "s", "queue.maxtime", walltime_inputs(pairs.chunks, pairs.candidates))
