"""Rules on limits of which most queues have none: only those that have one are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from broker.domain.arrays import Bools, columns_at
from broker.domain.queues import QueueTable


def kept_where(limited: Bools, candidates: QueueTable, keep: Callable[[QueueTable], Bools]) -> Bools:
    """(T, Q), or (1, Q) where no queue has the limit: the result of a comparison, True without a limit.

    Args:
        limited: (1, Q) queues that have the limit.
        candidates: all queues.
        keep: compares some of them, (T, C).
    """
    at = np.flatnonzero(limited)
    if not len(at):
        return np.asarray(~limited)
    if len(at) == limited.shape[1]:
        return keep(candidates)
    compared = keep(columns_at(candidates, at))
    result = np.ones((len(compared), limited.shape[1]), dtype=np.bool_)
    result[:, at] = compared
    return result
