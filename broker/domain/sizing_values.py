"""The tuning by which requests are learned: for the agent, and for the simulation. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Finished jobs from which a task is looked at, and then each time that their number has doubled, up to the last.
FIRST_JOBS, LAST_JOBS = 5, 1000
RANK, MARGIN, LEAST = "LEARNED_REQUESTS_PERCENTILE", "LEARNED_REQUESTS_MARGIN", "LEARNED_REQUESTS_LEAST_JOBS"
PRIOR_RANK, PRIOR_TASKS = "LEARNED_REQUESTS_PRIOR_PERCENTILE", "LEARNED_REQUESTS_PRIOR_TASKS"
PRIOR_LEAST = "LEARNED_REQUESTS_PRIOR_LEAST"


@dataclass(frozen=True)
class PriorLimits:
    """How a prior becomes a request.

    Attributes:
        rank: percentile that it is worked out for.
        margin_percent: that is added.
        least_share: of the request below which no task asks, without the margin; nor for more than its reciprocal.
    """

    rank: float
    margin_percent: float
    least_share: float


@dataclass(frozen=True)
class SizingValues:
    """Values of the keys ``LEARNED_REQUESTS_*``.

    Attributes:
        rank: percentile of what jobs used that is learned.
        least_jobs: ended jobs without which it is not known.
        margin_percent: that is added.
        prior: how a prior becomes a request.
        prior_tasks: tasks that what is above counts as, see ``memory_prior``.
    """

    rank: float
    least_jobs: int
    margin_percent: float
    prior: PriorLimits
    prior_tasks: float

    def with_margin(self, value_mb: float) -> float:
        """The value with the margin, in MB."""
        return value_mb * (1.0 + self.margin_percent / 100.0)


def sizing_values(number: Callable[[str], float]) -> SizingValues:
    """The values of a tuning; ``number`` gives that of a key."""
    margin = number(MARGIN)
    return SizingValues(
        rank=number(RANK),
        least_jobs=int(number(LEAST)),
        margin_percent=margin,
        prior=PriorLimits(number(PRIOR_RANK), margin, number(PRIOR_LEAST)),
        prior_tasks=number(PRIOR_TASKS),
    )
