"""Queues may give some kinds of tasks no share."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools
from broker.rules.shared.fairshare import texts_of_groups
from broker.rules.shared.share_rule import ShareRule

TEST_GROUP = "test"


class NoShare(ShareRule[AnalysisPairs]):
    """Rejects queues whose ``fairsharepolicy`` gives the task a share of 0.

    Not for tasks of the processing group test, nor for the one queue that a task names. Source: PanDA analysis
    brokerage, zero share.
    """

    name = "no_share"
    same_in_passes = True
    provenance = "PanDA analysis brokerage, zero share"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that are not tests and do not name their one queue."""
        groups = texts_of_groups(list(pairs.chunks.processingtype.ravel()))
        return np.asarray((groups != TEST_GROUP)[:, None] & ~pairs.facts.site_named)
