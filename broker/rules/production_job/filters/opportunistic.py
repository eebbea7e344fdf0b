"""Urgent chunks avoid opportunistic queues."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_preassigned
from broker.domain.work import is_selective
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number

OPPORTUNISTIC = -1.0


class Opportunistic(Filter[JobPairs]):
    """Rejects queues with ``pledgedcpu`` -1 for priority of 800 and more, and for scouts. Not for pre-assigned queues.

    Source: ATLAS Production Job Brokerage, opportunistic queues.
    """

    name = "opportunistic"
    reason = Reason(
        code="opportunistic",
        title="The queue is not opportunistic, for high priority and scouts",
        violation="The queue is opportunistic, and takes no work of high priority and no scouts",
        no_candidate="is pledged, as high priority and scouts require",
        who="wait",
        cure="Wait for a pledged queue. Once the scouts have ended, a task of ordinary priority may use opportunistic "
        "queues, too.",
    )
    sources = ("queues",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of high priority, and scouts."""
        return np.asarray(is_selective(pairs.chunks) & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the pledge is not -1; a queue with a NULL pledge is not opportunistic."""
        return np.asarray(pairs.candidates.pledgedcpu != OPPORTUNISTIC)

    def observe(self, pairs: JobPairs) -> Observation:
        """The pledge of the queue in cores; -1 marks opportunistic queues."""
        return Observation(number(pairs.candidates.pledgedcpu), "!=", OPPORTUNISTIC, "cores", "queue.pledgedcpu")
