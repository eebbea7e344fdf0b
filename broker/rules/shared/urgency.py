"""Chunks that should not wait: high priority and scouts."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.work import WorkTable

SELECTIVE_PRIORITY = 800
BOOSTED_PRIORITY = 900


def is_selective(tasks: WorkTable) -> Bools:
    """(T, 1): priority of 800 and more, or scouts: they do not go where jobs may be stuck or evicted."""
    return np.asarray(tasks.scout | (tasks.currentpriority >= SELECTIVE_PRIORITY))


def is_boosted(tasks: WorkTable) -> Bools:
    """(T, 1): priority of 900 and more, or scouts."""
    return np.asarray(tasks.scout | (tasks.currentpriority >= BOOSTED_PRIORITY))
