"""The owner of the task must not have used up the quota at the output endpoint."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, flag

PROVENANCE = "ATLAS Analysis Job Brokerage"


class LocalQuota(Filter[AnalysisPairs]):
    """The owner has quota at the endpoint for the output.

    Rejects queues at whose default output endpoint the owner of the task has used up the local quota. The throttle
    handles quotas that cannot be read.

    Source: PanDA analysis brokerage, filters.
    """

    name = "local_quota"
    same_in_passes = True
    reason = Reason(
        code="local_quota",
        title="The owner has quota at the endpoint for the output",
        violation="You have used up your quota at the storage to which the queue writes",
        no_candidate="has quota left for the user",
        who="you",
        cure="Delete data that you do not need at that storage (`rucio list-account-usage` shows how much there is), "
        "or write the output elsewhere (`prun --destSE`).",
    )
    sources = ("quota",)
    unknown_policy = "keep"
    provenance = PROVENANCE

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q), or (1, 1) if no quota is exceeded: True where there is quota for the output."""
        over = pairs.facts.by_kind("over_local_quota")
        return np.asarray(~over.every if over.table.any() else [[True]])

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the quota is used up."""
        return Observation(flag(pairs.facts.over_local_quota), "==", False, "-", "rule")
