"""What jobs of a new task need: by what tasks of its kind and of a wider kind used, and by what it asks for.

Pure: of sums that are kept of each task, so that the same sums give the same value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from broker.domain.arrays import Floats

#: Of fewer tasks nothing is known of how they differ.
LEAST_TASKS = 2


@dataclass(frozen=True)
class UsedMemory:
    """What jobs of a task used, as sums over them of the logarithm of MB and of its square.

    Killed jobs count with what they had when they were killed: they need more.
    """

    jobs: int
    ln_sum: float
    ln_square_sum: float


@dataclass(frozen=True)
class MemoryPrior:
    """What a job of a task of which nothing is known is to ask for, and of what that is made.

    Attributes:
        ask_mb: without a margin.
        kind_mb, wider_mb: what a job of a task of the kind, or of the wider kind, needs by these tasks alone; NaN where
            there are fewer than LEAST_TASKS.
        request_mb: what the task asks for.
        kind_tasks, kind_jobs: of the kind.
        wider_tasks, wider_jobs: of the wider kind, with those of the kind.
    """

    ask_mb: float
    kind_mb: float
    wider_mb: float
    request_mb: float
    kind_tasks: int
    kind_jobs: int
    wider_tasks: int
    wider_jobs: int

    def bounded_mb(self, least_share: float) -> float:
        """What it asks for without a margin: from ``least_share`` of the request, above 0, to its reciprocal."""
        return min(max(self.ask_mb, least_share * self.request_mb), self.request_mb / least_share)


def used_memory(used_mb: Floats, killed_mb: Floats) -> UsedMemory:
    """The sums over jobs that finished, (n,), and that were killed for their memory, (k,); all positive."""
    values = np.log(np.concatenate([used_mb, killed_mb]))
    return UsedMemory(len(values), float(values.sum()), float((values * values).sum()))


def memory_prior(
    kind: Sequence[UsedMemory], wider: Sequence[UsedMemory], request_mb: float, rank: float, weight: float
) -> MemoryPrior | None:
    """What a job of a new task is to ask for; None where too few tasks are known, or the request is not positive.

    The request, the wider kind and the kind are drawn together, as logarithms: n tasks count n / (n + weight), what is
    above them the rest.

    >>> task = [UsedMemory(10, 10 * math.log(1000.0), 10 * math.log(1000.0) ** 2)]
    >>> found = memory_prior([], 4 * task, 2000.0, 95.0, 4.0)
    >>> found is not None and round(found.ask_mb), memory_prior(task, task, 2000.0, 95.0, 4.0)
    (1414, None)

    Args:
        kind: of tasks of its kind.
        wider: of tasks of the wider kind, those of the kind among them.
        request_mb: what the task asks for.
        rank: percentile of the jobs for which it is to be enough, above 0 and below 100.
        weight: tasks that what is above counts as; not negative.
    """
    if not request_mb > 0:
        return None
    asked = math.log(request_mb)
    found = [math.nan, math.nan]
    for at, tasks in enumerate((wider, kind)):
        if len(tasks) >= LEAST_TASKS:
            found[at] = _quantile_ln(tasks, rank)
            share = len(tasks) / (len(tasks) + weight)
            asked = share * found[at] + (1.0 - share) * asked
    if all(map(math.isnan, found)):
        return None
    return MemoryPrior(
        math.exp(asked), math.exp(found[1]), math.exp(found[0]), request_mb,
        len(kind), sum(one.jobs for one in kind), len(wider), sum(one.jobs for one in wider),
    )  # fmt: skip


def _quantile_ln(tasks: Sequence[UsedMemory], rank: float) -> float:
    """The logarithm of what is enough for ``rank`` percent of the jobs of another task.

    Lognormal within tasks and between them, by moments, with the uncertainty of the mean of so many tasks.
    """
    jobs = np.array([one.jobs for one in tasks], dtype=np.float64)
    sums = np.array([one.ln_sum for one in tasks])
    squares = np.array([one.ln_square_sum for one in tasks])
    means = sums / jobs
    within = max(0.0, float((squares - sums * means).sum()) / max(1.0, float((jobs - 1.0).sum())))
    between = max(0.0, float(means.var(ddof=1)) - within * float((1.0 / jobs).mean()))
    spread = math.sqrt(between * (1.0 + 1.0 / len(tasks)) + within)
    return float(means.mean()) + NormalDist().inv_cdf(rank / 100.0) * spread
