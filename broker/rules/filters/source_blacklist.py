"""Input must be readable from somewhere else."""

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


class SourceBlacklist(Filter):
    """Rejects queues away from the nucleus when no complete replica of the input can be read over WAN.

    Asked only where the checks before it hold. Source: ATLAS Production Job Brokerage, storage endpoints.
    """

    name = "source_blacklist"
    code = "source_blacklist"
    title = "The input can be read from somewhere over WAN"
    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages", "replicas")
    unknown_policy = "keep"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks whose input cannot be read over WAN."""
        return np.asarray(~facts.remote_source)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(facts.at_nucleus | ~_asked(facts, tuning))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Whether the queue can get the input, and whether an earlier check fails."""
        works, asked = flag(facts.at_nucleus), flag(_asked(facts, tuning))
        return Observation(works or not asked, "==", True, "-", "rule", {"at_nucleus": works, "asked": asked})


def _asked(facts: JobFacts, tuning: TuningView) -> Bools:
    return np.asarray(facts.can_send & facts.can_receive & works_over_lan(facts, tuning))
