"""Queues may give some kinds of tasks no share."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, JobPairs
from broker.rules.shared.share_rule import ShareRule

EXEMPT_WORK_QUEUES = ("test", "validation")
MANAGED = "managed"


class Zeroshare(ShareRule[JobPairs]):
    """Rejects queues whose ``fairsharepolicy`` gives the task a share of 0.

    Not for tasks of the work queues test and validation, unless they have a single pre-assigned queue and a label
    other than managed. A policy part that cannot be read is unknown; the task is accepted there. Source: ATLAS
    Production Job Brokerage, Zero Share.
    """

    name = "zeroshare"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks other than test and validation, and all pre-assigned to a single queue that are not managed."""
        tested = np.logical_or.reduce([pairs.chunks.gshare == exempt for exempt in EXEMPT_WORK_QUEUES]).astype(np.bool_)
        return np.asarray(~tested | (pairs.facts.one_preassigned & (pairs.chunks.prodsourcelabel != MANAGED)))
