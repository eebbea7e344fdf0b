"""The number of cores that a queue can run, and how well, from sums over its record. Pure.

The cores running now are too few if the queue is idle, and the most that ever ran may be old or a momentary reading:
the estimate moves from the former to the latter with the number of observed hours.

Source: Beta prior of failures: 33 labels of 300 jobs or more, mean .075.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Prior of the failure rate, and its weight in jobs.
USUAL_FAILURE, PRIOR_JOBS = 0.075, 20.0
#: Largest factor by which real over expected walltimes may differ from 1.
MOST_RATIO = 5.0


@dataclass(frozen=True)
class QueueSums:
    """Sums of the record of a queue over some weeks.

    Attributes:
        most_cores: the most cores seen running at one instant; ``hours``: number of observed hours.
        finished, failed: numbers of jobs.
        ratio_jobs, ratio_ln_sum: finished jobs with an expected walltime, and the sum of ln(real over expected).
    """

    most_cores: float = 0.0
    hours: int = 0
    finished: int = 0
    failed: int = 0
    ratio_jobs: int = 0
    ratio_ln_sum: float = 0.0

    def cores(self, running: float, prior_h: float) -> float:
        """Cores that the queue can run: never below those that run now.

        Args:
            running: cores that run now.
            prior_h: hours of record after which half of the excess over ``running`` counts; at 0 all of it.

        >>> QueueSums(most_cores=100.0, hours=6).cores(20.0, prior_h=6.0)
        60.0
        """
        weight = self.hours / (self.hours + prior_h) if self.hours else 0.0
        return running + weight * max(0.0, self.most_cores - running)

    def failure(self) -> float:
        """The fraction of jobs that fail, shrunk towards the usual one.

        >>> QueueSums().failure(), round(QueueSums(finished=10, failed=90).failure(), 3)
        (0.075, 0.762)
        """
        ended = self.finished + self.failed
        return (self.failed + USUAL_FAILURE * PRIOR_JOBS) / (ended + PRIOR_JOBS)

    def efficiency(self) -> float:
        """Expected over real walltime, shrunk towards 1.

        >>> round(QueueSums(ratio_jobs=980, ratio_ln_sum=980 * 0.7).efficiency(), 2)
        0.5
        """
        mean = self.ratio_ln_sum / (self.ratio_jobs + PRIOR_JOBS)
        return math.exp(-min(max(mean, -math.log(MOST_RATIO)), math.log(MOST_RATIO)))
