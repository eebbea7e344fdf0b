"""The memory that jobs of a new task need, estimated from tasks of its kind, of a wider kind, and its request.

Pure: computed from sums stored for each task, so that the same sums give the same value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from broker.domain.arrays import Floats

#: With fewer tasks, nothing is known about their differences.
LEAST_TASKS = 2


@dataclass(frozen=True)
class UsedMemory:
    """Memory used by the jobs of a task, as sums of the logarithm of MB and of its square.

    Killed jobs count with their memory when they were killed, although they need more.
    """

    jobs: int
    ln_sum: float
    ln_square_sum: float


@dataclass(frozen=True)
class MemoryPrior:
    """The memory that jobs of an unknown task should request, and its components.

    Attributes:
        ask_mb: memory to request, without a margin.
        kind_mb, wider_mb: memory that a job needs according to tasks of the kind, or of the wider kind, alone; NaN for
            fewer than LEAST_TASKS.
        request_mb: the request of the task.
        kind_tasks, kind_jobs: numbers of the kind.
        wider_tasks, wider_jobs: numbers of the wider kind, including those of the kind.
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
        """The memory without a margin, bounded by ``least_share`` (above 0) of the request and its reciprocal."""
        return min(max(self.ask_mb, least_share * self.request_mb), self.request_mb / least_share)


def used_memory(used_mb: Floats, killed_mb: Floats) -> UsedMemory:
    """The sums over finished jobs, (n,), and jobs killed for memory, (k,); all values are positive."""
    values = np.log(np.concatenate([used_mb, killed_mb]))
    return UsedMemory(len(values), float(values.sum()), float((values * values).sum()))


def memory_prior(
    kind: Sequence[UsedMemory], wider: Sequence[UsedMemory], request_mb: float, rank: float, weight: float
) -> MemoryPrior | None:
    """The memory for jobs of a new task to request; None if too few tasks are known, or the request is not positive.

    The request, the wider kind and the kind are combined as logarithms: at each level, n tasks weigh n / (n + weight),
    and the level above weighs the rest.

    >>> task = [UsedMemory(10, 10 * math.log(1000.0), 10 * math.log(1000.0) ** 2)]
    >>> found = memory_prior([], 4 * task, 2000.0, 95.0, 4.0)
    >>> found is not None and round(found.ask_mb), memory_prior(task, task, 2000.0, 95.0, 4.0)
    (1414, None)

    Args:
        kind: memory of tasks of its kind.
        wider: memory of tasks of the wider kind, including those of the kind.
        request_mb: request of the task.
        rank: percentile of the jobs for which the memory should suffice, above 0 and below 100.
        weight: number of tasks that the level above counts as; not negative.
    """
    if not request_mb > 0:
        return None
    combined_ln = math.log(request_mb)
    quantiles_ln = [math.nan, math.nan]
    for level, tasks in enumerate((wider, kind)):
        if len(tasks) >= LEAST_TASKS:
            quantiles_ln[level] = _quantile_ln(tasks, rank)
            share = len(tasks) / (len(tasks) + weight)
            combined_ln = share * quantiles_ln[level] + (1.0 - share) * combined_ln
    if all(map(math.isnan, quantiles_ln)):
        return None
    return MemoryPrior(
        math.exp(combined_ln), math.exp(quantiles_ln[1]), math.exp(quantiles_ln[0]), request_mb,
        len(kind), sum(one.jobs for one in kind), len(wider), sum(one.jobs for one in wider),
    )  # fmt: skip


def _quantile_ln(tasks: Sequence[UsedMemory], rank: float) -> float:
    """The logarithm of the memory sufficient for ``rank`` percent of the jobs of another task.

    Lognormal within and between tasks, by moments, including the uncertainty of the mean over the tasks.
    """
    jobs = np.array([one.jobs for one in tasks], dtype=np.float64)
    sums = np.array([one.ln_sum for one in tasks])
    squares = np.array([one.ln_square_sum for one in tasks])
    means = sums / jobs
    within = max(0.0, float((squares - sums * means).sum()) / max(1.0, float((jobs - 1.0).sum())))
    between = max(0.0, float(means.var(ddof=1)) - within * float((1.0 / jobs).mean()))
    spread = math.sqrt(between * (1.0 + 1.0 / len(tasks)) + within)
    return float(means.mean()) + NormalDist().inv_cdf(rank / 100.0) * spread
