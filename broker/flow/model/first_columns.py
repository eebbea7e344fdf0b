"""The pairs with which the program starts: those that are cheap at prices near the optimal ones.

Prices are approximated iteratively: every chunk goes to its cheapest queue, overfull limits get dearer, and the loads
of all rounds are averaged, so that the all-or-nothing jumps of single rounds cancel out. The result affects only the
time that the solver takes.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.flow.model.problem import SEGMENTS, FlowProblem, Rows, segment_size

ROUNDS = 40
#: Rise of the price of an overfull limit, in HS06 h per relative excess.
_STEP = 25.0


def likely_pairs(
    problem: FlowProblem, rows: Rows, base: Floats, waits: Floats, earlier: Floats | None, count: int
) -> Bools:
    """(P,) the ``count`` cheapest pairs of each chunk at these prices, and all that were cheapest in some round.

    Args:
        problem: the problem of the cycle.
        rows: its limits.
        base: (P,) cost of a job of each pair.
        waits: (Q, SEGMENTS) cost of a core.
        earlier: (Q,) prices of a core in the last cycle, used as initial prices.
        count: number of pairs for each chunk.
    """
    pairs, chunks = problem.pairs, problem.chunks
    k, q = pairs.chunk, pairs.queue
    cores, jobs = chunks.cores[k], chunks.jobs
    size = segment_size(problem)
    load = np.zeros(len(problem.queues))
    used = np.zeros(len(rows.room))
    room_price = np.zeros(len(rows.room))
    wait = waits[:, 0] if earlier is None else np.maximum(earlier, waits[:, 0])
    chosen = np.zeros(len(pairs), dtype=np.bool_)
    starts = np.searchsorted(k, np.arange(len(chunks)))
    nonempty = np.flatnonzero(np.bincount(k, minlength=len(chunks)))
    for turn in range(1, ROUNDS + 1):
        price = base + wait[q] * cores + (room_price[rows.room_of] if len(used) else 0.0)
        least = np.minimum.reduceat(price, starts[nonempty])
        best = np.flatnonzero(price <= np.repeat(least, np.bincount(k, minlength=len(chunks))[nonempty]))
        chosen[best] = True
        placed = np.zeros(len(pairs))
        placed[best] = jobs[k[best]]
        weight = 1.0 / turn
        load += weight * (np.bincount(q, weights=placed * cores, minlength=len(load)) - load)
        used += weight * (np.bincount(rows.room_of, weights=placed, minlength=len(used)) - used)
        level = np.minimum(load / size, SEGMENTS - 1).astype(np.int64)
        wait = waits[np.arange(len(load)), level]
        over = np.where(rows.limited, used / np.maximum(rows.room, 0.5) - 1.0, 0.0)
        room_price = np.maximum(0.0, room_price + _STEP * np.clip(over, -1.0, 2.0) / np.sqrt(turn))
    price = base + wait[q] * cores + (room_price[rows.room_of] if len(used) else 0.0)
    return chosen | cheapest_of_each(k, price, count)


def cheapest_of_each(group: np.ndarray, price: Floats, count: int) -> Bools:
    """(P,) whether each entry is among the ``count`` cheapest of its group; among equal ones the first."""
    order = np.lexsort((np.arange(len(group)), price, group))
    ordered = group[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(group) else np.empty(0, int)
    rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    chosen = np.zeros(len(group), dtype=np.bool_)
    chosen[order[rank < count]] = True
    return chosen
