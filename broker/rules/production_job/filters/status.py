"""The queue must be online."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_preassigned
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Options, Reason, text

ONLINE = "online"


class StatusOptions(Options):
    """Other statuses that are as good as ``online``."""

    also: tuple[str, ...] = ()


class Status(Filter[JobPairs]):
    """Keeps queues whose status is ``online``, or one of ``also``. Not for pre-assigned queues.

    Source: ATLAS Production Job Brokerage, queue status.
    """

    name = "status"
    reason = Reason(
        code="status",
        title="The queue is online",
        violation="The queue is not online",
        no_candidate="is online",
        who="ask",
        cure="The site brings the queue back online in CRIC; `broker queue history QUEUE` says since when it is not.",
    )
    sources = ("queues",)
    options: StatusOptions = StatusOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks without pre-assigned queues."""
        return not_preassigned(pairs.facts)

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the status is accepted; NULL is not online."""
        good = pairs.candidates.status == ONLINE
        for other in self.options.also:
            good = good | (pairs.candidates.status == other)
        return np.asarray(good, dtype=np.bool_)

    def observe(self, pairs: JobPairs) -> Observation:
        """The status of the queue, and the accepted ones."""
        if self.options.also:
            accepted = ", ".join((ONLINE, *self.options.also))
            return Observation(text(pairs.candidates.status), "in", accepted, "-", "queue.status")
        return Observation(text(pairs.candidates.status), "==", ONLINE, "-", "queue.status")
