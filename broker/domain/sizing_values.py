"""The tuning of learned requests, for the agent and the simulation. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Numbers of finished jobs at which a task is first and last evaluated; in between, each time the number has doubled.
FIRST_JOBS, LAST_JOBS = 5, 1000
RANK, MARGIN, LEAST = "LEARNED_REQUESTS_PERCENTILE", "LEARNED_REQUESTS_MARGIN", "LEARNED_REQUESTS_LEAST_JOBS"
PRIOR_RANK, PRIOR_TASKS = "LEARNED_REQUESTS_PRIOR_PERCENTILE", "LEARNED_REQUESTS_PRIOR_TASKS"
PRIOR_LEAST = "LEARNED_REQUESTS_PRIOR_LEAST"


@dataclass(frozen=True)
class PriorLimits:
    """How a prior becomes a request.

    Attributes:
        rank: percentile for which the prior is computed.
        margin_percent: added margin.
        least_share: lower bound of the result without the margin, as a share of the request; its reciprocal is the
            upper bound.
    """

    rank: float
    margin_percent: float
    least_share: float


@dataclass(frozen=True)
class SizingValues:
    """Values of the keys ``LEARNED_REQUESTS_*``.

    Attributes:
        rank: learned percentile of what jobs used.
        least_jobs: fewest ended jobs for it to be known.
        margin_percent: added margin.
        prior: how a prior becomes a request.
        prior_tasks: number of tasks that the level above counts as, see ``memory_prior``.
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
    """The values of a tuning; ``number`` returns the value of a key."""
    margin = number(MARGIN)
    return SizingValues(
        rank=number(RANK),
        least_jobs=int(number(LEAST)),
        margin_percent=margin,
        prior=PriorLimits(number(PRIOR_RANK), margin, number(PRIOR_LEAST)),
        prior_tasks=number(PRIOR_TASKS),
    )
