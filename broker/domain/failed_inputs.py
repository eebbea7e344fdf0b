"""Where input files of a chunk recently failed, and which queues their next attempt avoids. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints

#: Hours for which failures are remembered; LEARNED_RETRY_WITHIN is at most as long.
RETENTION_H = 6.0


@dataclass(frozen=True)
class FailedFiles:
    """Files of a dataset that failed at one queue and wait for their next attempt.

    Attributes:
        files: number of files.
        last_s: when the last of them failed (seconds since 1970 UTC).
    """

    files: int
    last_s: float


FailedInputs = Mapping[tuple[int, int], Mapping[str, FailedFiles]]
"""Failed files by task and dataset, then by queue."""


def least_files(share: float, waiting: Floats | Ints) -> Floats:
    """The number of waiting files that must have failed at a queue before it is avoided: a share, but at least one.

    >>> least_files(0.1, np.array([1, 40])).tolist()
    [1.0, 4.0]
    """
    return np.asarray(np.maximum(1.0, share * np.asarray(waiting, dtype=np.float64)))


def avoided_queues(files: Floats, least: Floats, left: Bools, most_share: float) -> Bools:
    """The queues that chunks avoid: those where most of their files failed, as long as others remain.

    >>> failed, left = np.array([[3.0, 0.0], [3.0, 3.0]]), np.ones((2, 2), dtype=bool)
    >>> avoided_queues(failed, np.ones(2), left, 1.0).tolist()
    [[True, False], [False, False]]

    Args:
        files: (T, U) waiting files of each chunk that failed at each queue.
        least: (T,) fewest failed files for a queue to be avoided.
        left: (T, U) the queues that nothing else has rejected.
        most_share: largest share of the remaining queues that is avoided, though one may always be; at 0 none is.
    """
    if not most_share:
        return np.zeros(left.shape, dtype=np.bool_)
    failing = left & (files >= least[:, None])
    most = np.floor(np.maximum(1.0, most_share * left.sum(axis=1)))
    # queues with most files first, then in queue order
    order = np.argsort(-np.where(failing, files, -math.inf), axis=1, kind="stable")
    rank = np.empty(order.shape, dtype=np.int64)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
    avoided = failing & (rank < most[:, None])
    another: Bools = (left & ~avoided).any(axis=1)
    return np.asarray(avoided & another[:, None])
