"""The queue must be online."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Options, Reason, flag, text

PROVENANCE = "ATLAS Analysis Job Brokerage"
ONLINE, OFFLINE = "online", "offline"
CLOSED = (OFFLINE, "brokeroff", "test")


class OpenQueueOptions(Options):
    """Which states take jobs: only ``online``, or ``any_but_closed``: all but offline, brokeroff and test."""

    open: Literal["online", "any_but_closed"] = "online"


class OpenQueue(Filter[AnalysisPairs]):
    """The queue is online, or named by the task and not offline.

    Rejects queues that are not online. Queues that the task names may be in another state, but not offline.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "open_queue"
    same_in_passes = True
    reason = Reason(
        code="status",
        title="The queue is online, or named by the task and not offline",
        violation="The queue is not online",
        no_candidate="is online",
        who="ask",
        cure="The site brings the queue back online in CRIC; `broker queue history QUEUE` says since when it is not. A "
        "queue that the task names may be in another state, but not offline.",
    )
    sources = ("queues",)
    provenance = PROVENANCE
    options: OpenQueueOptions = OpenQueueOptions()

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the queue is online, or named by the task and not offline."""
        status = pairs.candidates.status
        takes_all = status == ONLINE if self.options.open == "online" else ~np.isin(status.astype(np.str_), CLOSED)
        return np.asarray(takes_all | (pairs.facts.named & (status != OFFLINE)))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The status of the queue, and the accepted ones."""
        status = text(pairs.candidates.status)
        if flag(pairs.facts.named):
            return Observation(status, "!=", OFFLINE, "-", "queue.status", {"named": True})
        if self.options.open == "any_but_closed":
            return Observation(status, "not in", ", ".join(CLOSED), "-", "queue.status", {"named": False})
        return Observation(status, "==", ONLINE, "-", "queue.status", {"named": False})
