"""Whose part the regret of a cycle is: by share at the optimal prices, and by queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.flow.model.cost_parts import pair_hs06, queue_cores, wait_costs
from broker.flow.model.problem import SEGMENTS, FlowProblem, segment_size, segment_waits
from broker.flow.model.program import FlowProgram, Prices

#: Queues that are named, those first whose cores differ most.
MOST_QUEUES = 10


@dataclass(frozen=True)
class QueueDifference:
    """Cores that the placed jobs ask for at a queue, and that the best placement would."""

    queue: int
    cores: float
    best_cores: float


def regret_of_shares(program: FlowProgram, prices: Prices, jobs: Floats) -> Floats:
    """(S,) HS06 h of regret; all together they are the regret of the cycle, and none is negative.

    By duality the regret is a sum over what is not as the prices ask for: jobs where they are dearer than the best use
    of them, jobs left over, places with a price that are not used, and queues that are fuller or emptier than they
    should be. The first ones are of one share; queues and links are divided by the jobs that the shares have there.

    Args:
        program: of the cycle.
        prices: that are optimal.
        jobs: (P,) as they were placed, within all limits.
    """
    problem, rows = program.problem, program.rows
    pairs, chunks, shares = problem.pairs, problem.chunks, len(program.debt)
    share = chunks.share[pairs.chunk]
    placed = np.bincount(pairs.chunk, weights=jobs, minlength=len(chunks))
    own = np.asarray(np.bincount(share, weights=program.reduced_costs(prices) * jobs, minlength=shares), np.float64)
    over = (chunks.jobs - placed) * (program.unplaced - prices.chunk)
    own = own + np.bincount(chunks.share, weights=over, minlength=shares)
    used = np.bincount(rows.room_of, weights=jobs, minlength=len(rows.room))
    room = np.where(rows.limited, prices.room * (np.where(rows.limited, rows.room, 0.0) - used), 0.0)
    own = own + np.bincount(rows.cells % shares, weights=room, minlength=shares)
    got = np.bincount(share, weights=pair_hs06(problem) * jobs, minlength=shares)
    lacks = program.debt - got
    own = own + problem.costs.share_debt * np.maximum(lacks, 0.0) - prices.share * lacks
    own = own + _divided(
        _of_queues(problem, prices, jobs), pairs.queue, share, jobs * chunks.cores[pairs.chunk], shares
    )
    own = own + _of_limits(problem.link_gb, prices.link, rows.link_of, jobs * rows.gb, share, shares)
    own = own + _of_limits(problem.output_jobs, prices.output, pairs.output, jobs, share, shares)
    return np.maximum(own, 0.0)


def _of_queues(problem: FlowProblem, prices: Prices, jobs: Floats) -> Floats:
    """(Q,) HS06 h by which the wait at a queue is dearer than with as many cores as its price asks for."""
    cores = queue_cores(problem, jobs)
    size = np.repeat(segment_size(problem)[:, None], SEGMENTS - 1, axis=1)
    best = (np.minimum(segment_waits(problem)[:, :-1] - prices.wait[:, None], 0.0) * size).sum(axis=1)
    return np.asarray(wait_costs(problem, cores) - prices.wait * cores - best)


def _of_limits(limit: Floats, price: Floats, index: Ints, used: Floats, share: Ints, shares: int) -> Floats:
    """(S,) the worth of what is not used of each limit."""
    if not len(limit):
        return np.zeros(shares)
    inside = index >= 0
    there = np.bincount(index[inside], weights=used[inside], minlength=len(limit))
    return _divided(price * (limit - there), index[inside], share[inside], used[inside], shares)


def _divided(cost: Floats, index: Ints, share: Ints, weight: Floats, shares: int) -> Floats:
    """(S,) costs (N,) divided among the shares by their weights at each; by all weights where none has any there."""
    cells = np.bincount(index * shares + share, weights=weight, minlength=len(cost) * shares).reshape(len(cost), shares)
    total = cells.sum(axis=1)
    every = cells.sum(axis=0) if total.sum() > 0 else np.ones(shares)
    parts = np.where(total[:, None] > 0, cells / np.where(total > 0, total, 1.0)[:, None], every / every.sum())
    return np.asarray((cost[:, None] * parts).sum(axis=0))


def queue_differences(problem: FlowProblem, jobs: Floats, best: Floats) -> tuple[QueueDifference, ...]:
    """The queues that should have got more or less, those with the largest difference first."""
    cores, wanted = queue_cores(problem, jobs), queue_cores(problem, best)
    order = np.argsort(-np.abs(cores - wanted), kind="stable")[:MOST_QUEUES]
    return tuple(
        QueueDifference(int(queue), float(cores[queue]), float(wanted[queue]))
        for queue in order
        if abs(cores[queue] - wanted[queue]) >= 1.0
    )
