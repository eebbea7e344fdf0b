"""While work is short, queues get no more than they have pledged."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Options, Reason, number

SHORTAGE = "WORK_SHORTAGE"


class OverPledgedOptions(Options):
    """Whether the cores of starting jobs count in addition to those of running ones."""

    starting_count: bool = False


class OverPledged(Filter[JobPairs]):
    """Rejects queues that run more cores than a positive ``pledgedcpu`` while WORK_SHORTAGE is true.

    Cores are those of running jobs of the VO and label of the task. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, WORK_SHORTAGE.
    """

    name = "over_pledged"
    reason = Reason(
        code="over_pledged",
        title="The queue runs no more cores than pledged, while work is short",
        violation="The queue runs more cores than it has pledged, and work is short",
        no_candidate="runs no more cores than it has pledged",
        who="wait",
        cure="Wait: while work is short (`WORK_SHORTAGE`), queues below their pledge come first.",
    )
    keys = (SHORTAGE,)
    sources = ("queues", "jobs")
    options: OverPledgedOptions = OverPledgedOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """While work is short, chunks without a single pre-assigned queue; otherwise none."""
        return np.asarray(not_single(pairs.facts) & pairs.tuning.flag(SHORTAGE))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the cores do not exceed the pledge; a pledge of 0 or NULL is no limit."""
        pledge = np.where(pairs.candidates.pledgedcpu > 0, pairs.candidates.pledgedcpu, np.inf)
        return np.asarray(self._cores(pairs) <= pledge)

    def observe(self, pairs: JobPairs) -> Observation:
        """Running cores; no limit without a pledge."""
        pledge = number(pairs.candidates.pledgedcpu)
        limit = pledge if pledge is not None and pledge > 0 else None
        return Observation(number(self._cores(pairs)), "<=", limit, "cores", "queue.pledgedcpu")

    def _cores(self, pairs: JobPairs) -> Floats:
        """(T, Q): the cores that count against the pledge."""
        facts = pairs.facts
        return facts.running_cores + facts.starting_cores if self.options.starting_count else facts.running_cores
