"""The link to the nucleus must not be blocked."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number

BLOCKED = -1.0


class LinkBlocked(Filter):
    """Rejects queues whose link to the nucleus has closeness -1. A link of which nothing is known is not blocked.

    Source: ATLAS Production Job Brokerage, blocked links.
    """

    name = "link_blocked"
    code = "link_unusable"
    title = "The link to the nucleus is not blocked"
    sources = ("links",)
    unknown_policy = "keep"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(facts.closeness != BLOCKED)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The closeness; None where nothing is known."""
        return Observation(number(facts.closeness), "!=", BLOCKED, "closeness", "rule")
