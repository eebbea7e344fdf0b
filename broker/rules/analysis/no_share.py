"""Queues can give some kinds of tasks no share."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import TuningView
from broker.rules.fairshare import texts_of_groups
from broker.rules.filters.zeroshare import Zeroshare

TEST_GROUP = "test"


class NoShare(Zeroshare):
    """Rejects queues whose ``fairsharepolicy`` gives the task a share of 0.

    Not for tasks of the processing group test, nor for the one queue that a task names. Source: PanDA analysis
    brokerage, zero share.
    """

    name = "no_share"
    provenance = "PanDA analysis brokerage, zero share"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are no test and do not name their one queue."""
        groups = texts_of_groups(list(tasks.processingtype.ravel()))
        return np.asarray((groups != TEST_GROUP)[:, None] & ~of_analysis(facts).site_named)
