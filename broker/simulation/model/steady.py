"""Find the time from which a grid is steady, and the warm-up of a simulation should end, from its curves.

Source: MSER-5 (White, Cobb and Spratt 2000): of the means of five samples each, leave out as many at the beginning as
minimise the standard error of the mean of the others. A minimum in the last half means that the run is too short.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats

BATCH = 5
#: Minimum number of remaining batches: an error of fewer means nothing.
FEWEST = 5


def steady_after(values: Floats) -> int | None:
    """Number of samples to leave out at the beginning; None if the curve does not become steady, or is too short.

    Args:
        values: (N,) values at regular instants.

    >>> steady_after(np.concatenate([np.linspace(0, 1, 20), np.tile([1.0, 1.1], 40)]))
    20
    >>> steady_after(np.linspace(0, 1, 100)) is None
    True
    """
    means = np.asarray(values, dtype=np.float64)[: len(values) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    if len(means) < 2 * FEWEST:
        return None
    errors = [float(means[first:].var()) / (len(means) - first) for first in range(len(means) - FEWEST + 1)]
    least = int(np.argmin(errors))
    return least * BATCH if least <= len(means) // 2 else None


def steady_hour(hours: Floats, curves: Floats) -> float | None:
    """The hour from which the mean of several curves is steady; None if it is not within half of the run.

    Args:
        hours: (N,) hours of the samples.
        curves: (runs, N) curves of one policy.
    """
    first = steady_after(np.asarray(curves).mean(axis=0)) if len(curves) else None
    return None if first is None else float(hours[min(first, len(hours) - 1)])
