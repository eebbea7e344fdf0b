"""Not too many files may wait on the link to the nucleus."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number

CAP = "NQUEUED_SAT_CAP"


class LinkFull(Filter):
    """Rejects queues while more files than the cap wait on their link to the nucleus.

    A link of which nothing is known is empty. Source: ATLAS Production Job Brokerage, files queued on links.
    """

    name = "link_full"
    code = "link_unusable"
    title = "The link to the nucleus is not full"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(~(facts.link_queued > tuning.number(CAP)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Files on the link; none where nothing is known."""
        queued = number(facts.link_queued)
        return Observation(queued or 0.0, "<=", tuning.number(CAP), "files", CAP, {"known": queued is not None})
