"""Tasks with a walltime get no queue while a remaining queue has no time limit set."""

from __future__ import annotations

import numpy as np

from broker.domain.estimates import is_set
from broker.rules.contract import Bools, GroupFilter, JobPairs, Observation, Reason, number


class MaxtimeMissing(GroupFilter[JobPairs]):
    """Rejects all queues for a chunk with a walltime while a remaining one has no ``maxtime``.

    PanDA's brokerage of the task ends with an error in this case. An own profile may leave the rule out. Source: PanDA
    JEDI, GenJobBroker.
    """

    name = "maxtime_missing"
    reason = Reason(
        code="maxtime_missing",
        title="Every queue that is left has a time limit, or 0 for none",
        violation="A queue that is left has no maxtime, at which PanDA's brokerage of the task ends",
        no_candidate="may be compared, as one has no maxtime",
        who="ask",
        cure="Operators give the queue a `maxtime` in CRIC (0: no limit), or leave the rule out in their profile. "
        "A task without `walltime` is not concerned.",
        limit="queue.maxtime",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks with a walltime."""
        return is_set(pairs.chunks.walltime)

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): True where the candidate passes."""
        missing = (alive & np.isnan(pairs.candidates.maxtime_s)).any(axis=1, keepdims=True)
        return np.broadcast_to(~missing, alive.shape)

    def observe(self, pairs: JobPairs) -> Observation:
        """The limit of this queue; another queue may lack one."""
        return Observation(number(pairs.candidates.maxtime_s), "in", "limits of all queues left", "s", "queue.maxtime")
