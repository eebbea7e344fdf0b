"""Input must be able to get to the storage."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag
from broker.rules.storage_order import MIN_FREE_GB, works_over_lan


class WriteWanBlacklist(Filter):
    """Rejects queues none of whose input endpoints receives over WAN, unless the input is there.

    Asked only where the checks before it hold. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "write_wan_blacklist"
    code = "write_wan_blacklist"
    title = "An input endpoint receives files over WAN"
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    unknown_policy = "keep"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(facts.can_receive | ~works_over_lan(facts, tuning))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether an endpoint works, and whether an earlier check fails."""
        works, asked = flag(facts.can_receive), flag(works_over_lan(facts, tuning))
        return Observation(works or not asked, "==", True, "-", "rule", {"works": works, "asked": asked})
