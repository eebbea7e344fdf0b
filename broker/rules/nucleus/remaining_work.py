"""Nuclei with little to do are better."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.rules.contract import NucleusLoadWeight

#: rwOffset. Source: ATLAS Production Task Brokerage, weight.
LEAST_HS06S = 50.0


class RemainingWork(NucleusLoadWeight):
    """1 / max(50, RW): RW is the work of the task's share at its priority and above, with what the cycle has placed.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "remaining_work"
    code = "remaining_work"
    title = "Little work of the share remains at the nucleus"

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        """Same shape."""
        return np.asarray(1.0 / np.maximum(LEAST_HS06S, remaining_work_hs06s))
