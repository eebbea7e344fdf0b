"""Which chunks stay at a bare nucleus. Source: Special Brokerage for ATLAS Full-chain."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.domain.queues import BARE_NONE
from broker.domain.work import WorkTable


def stays_at_bare_nucleus(tasks: WorkTable, facts: JobFacts) -> Bools:
    """(T, 1): the task is of a full chain (only, require or capable) and its nucleus is bare."""
    return np.asarray((tasks.full_chain > 0) & facts.has_nucleus & (facts.nucleus_bare > BARE_NONE))
