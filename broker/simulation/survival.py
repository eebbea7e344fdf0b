"""Quantiles of waiting times of which some are cut off: jobs that have not started are censored, not dropped.

Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958) 457.
"""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Bools, Floats


def survival_quantile(waited_s: Floats, started: Bools, probability: float) -> float:
    """The time by which a part of the jobs has started; infinite if the record does not reach so far, NaN for no job.

    Args:
        waited_s: (N,) how long each job waited, until it started or the record ended.
        started: (N,) false where the record ended first.
        probability: 0.5 for the median.
    """
    if not len(waited_s):
        return math.nan
    # of equal times, starts count before ends of record
    order = np.lexsort((~started, waited_s))
    waited, start = waited_s[order], started[order]
    at_risk = np.arange(len(waited), 0, -1, dtype=np.float64)
    surviving = np.cumprod(np.where(start, 1.0 - 1.0 / at_risk, 1.0))
    reached = np.flatnonzero(surviving <= 1.0 - probability + 1e-12)
    return float(waited[reached[0]]) if len(reached) else math.inf
