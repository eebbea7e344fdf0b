"""While work is short, opportunistic queues get none."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number

SHORTAGE = "WORK_SHORTAGE"
OPPORTUNISTIC = -1.0


class NonPledged(Filter[JobPairs]):
    """Rejects queues with ``pledgedcpu`` -1 while WORK_SHORTAGE is true. Not for a single pre-assigned queue.

    Source: ATLAS Production Job Brokerage, WORK_SHORTAGE.
    """

    name = "non_pledged"
    reason = Reason(
        code="non_pledged",
        title="The queue is pledged, while work is short",
        violation="The queue is not pledged, and work is short",
        no_candidate="is pledged",
        who="wait",
        cure="Wait: while work is short (`WORK_SHORTAGE`), pledged queues come first.",
    )
    keys = (SHORTAGE,)
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """While work is short, chunks without a single pre-assigned queue; otherwise none."""
        return np.asarray(not_single(pairs.facts) & pairs.tuning.flag(SHORTAGE))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the pledge is not -1; a queue with a NULL pledge is kept."""
        return np.asarray(pairs.candidates.pledgedcpu != OPPORTUNISTIC)

    def observe(self, pairs: JobPairs) -> Observation:
        """The pledge of the queue in cores."""
        return Observation(number(pairs.candidates.pledgedcpu), "!=", OPPORTUNISTIC, "cores", "queue.pledgedcpu")
