"""Jobs must be able to read input from the storage."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag
from broker.rules.storage_order import MIN_FREE_GB, has_free_space


class ReadLanBlacklist(Filter):
    """Rejects queues none of whose input endpoints (DATADISK) can be read over LAN, or that have none.

    Asked only where the checks before it hold. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "read_lan_blacklist"
    code = "read_lan_blacklist"
    title = "Jobs can read from an input endpoint over LAN"
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    unknown_policy = "reject"

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(facts.can_read | ~has_free_space(facts, tuning))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether an endpoint works, and whether an earlier check fails."""
        works, asked = flag(facts.can_read), flag(has_free_space(facts, tuning))
        return Observation(works or not asked, "==", True, "-", "rule", {"works": works, "asked": asked})
