"""What a way to place the jobs of a cycle costs, in parts: the sum that the linear program makes as small as it can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.flow.model.problem import SEGMENTS, FlowProblem, pair_bytes, pair_times, segment_size, segment_waits


@dataclass(frozen=True)
class CostParts:
    """Costs in HS06 h.

    Attributes:
        time: for which the jobs hold their cores.
        bytes: of what is moved.
        wait: of the jobs for their cores.
        left_over: of the jobs that get no place.
        share_debt: of what shares lack.
    """

    time: float
    bytes: float
    wait: float
    left_over: float
    share_debt: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.time + self.bytes + self.wait + self.left_over + self.share_debt


def cost_parts(problem: FlowProblem, jobs: Ints | Floats, unplaced: Floats, debt: Floats) -> CostParts:
    """What jobs (P,) of each pair cost; limits are not looked at.

    Args:
        problem: of the cycle.
        jobs: of each pair, whole or not.
        unplaced: (K,) HS06 h of leaving a job over.
        debt: (S,) HS06 that each share may ask for.
    """
    pairs, chunks = problem.pairs, problem.chunks
    placed = np.bincount(pairs.chunk, weights=jobs, minlength=len(chunks))
    got = np.bincount(chunks.share[pairs.chunk], weights=pair_hs06(problem) * jobs, minlength=len(debt))
    return CostParts(
        time=float((pair_times(problem) * jobs).sum()),
        bytes=float((pair_bytes(problem) * jobs).sum()),
        wait=float(wait_costs(problem, queue_cores(problem, jobs)).sum()),
        left_over=float(((chunks.jobs - placed) * unplaced).sum()),
        share_debt=float(np.maximum(debt - got, 0.0).sum() * problem.costs.share_debt),
    )


def pair_hs06(problem: FlowProblem) -> Floats:
    """(P,) HS06 that one job of the pair occupies."""
    return np.asarray(problem.chunks.cores[problem.pairs.chunk] * problem.queues.corepower[problem.pairs.queue])


def queue_cores(problem: FlowProblem, jobs: Ints | Floats) -> Floats:
    """(Q,) cores that the jobs ask for at each queue."""
    pairs = problem.pairs
    asked = jobs * problem.chunks.cores[pairs.chunk]
    return np.asarray(np.bincount(pairs.queue, weights=asked, minlength=len(problem.queues)))


def wait_costs(problem: FlowProblem, cores: Floats) -> Floats:
    """(Q,) HS06 h of so many cores (Q,) more at each queue: the first segments fill up before the last."""
    size = segment_size(problem)
    below = np.minimum(np.maximum(cores[:, None] - np.arange(SEGMENTS) * size[:, None], 0.0), size[:, None])
    below[:, -1] = np.maximum(cores - (SEGMENTS - 1) * size, 0.0)
    return np.asarray((below * segment_waits(problem)).sum(axis=1))
