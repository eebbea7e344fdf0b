"""Not too many files may wait to be transferred to the nucleus."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number

CAP = "NQUEUED_NUC_CAP_FOR_JOBS"


class NucleusFull(Filter):
    """Rejects every queue, those at the nucleus too, while more files than the cap wait on all links to the nucleus.

    A nucleus of which nothing is known is not full. Source: ATLAS Production Job Brokerage, files to be aggregated to
    the nucleus.
    """

    name = "nucleus_full"
    code = "links_full"
    title = "The nucleus is not flooded with files"
    kind = "temporary"
    keys = (CAP,)
    sources = ("links",)
    unknown_policy = "keep"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks with a nucleus."""
        return facts.has_nucleus

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, 1)."""
        return np.asarray(~(facts.nucleus_queued > tuning.number(CAP)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Files waiting; none where nothing is known."""
        queued = number(facts.nucleus_queued)
        return Observation(queued or 0.0, "<=", tuning.number(CAP), "files", CAP, {"known": queued is not None})
