"""Max-min fair rates of flows over shared resources, by progressive filling."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints


def fair_rates(way: Ints, uses: Ints, capacity: Floats, cap: Floats) -> Floats:
    """(F,) the rate of each flow.

    All flows of a way that their own cap does not stop get the same rate, so that the work grows with the ways.

    Args:
        way: (F,) the way of each flow.
        uses: (W, K) the distinct resources of each way; unused places hold R.
        capacity: (R,) the capacity of each resource, in the unit of rates.
        cap: (F,) the highest rate of each flow.

    Example: links A = 10 (flows f1, f2, f3), B = 4 (f3, f4), C = 20 (f2), no caps: B fills first, f3 = f4 = 2; then A
    has 8 left for two, f1 = f2 = 4.
    """
    resources, width = len(capacity), uses.shape[1]
    room = np.append(capacity, 0.0)
    flows = np.bincount(way, minlength=len(uses))
    counts = _counts(uses, flows, resources)
    level_of_way, is_open = np.zeros(len(uses)), np.ones(len(uses), dtype=np.bool_)
    uncapped, capped = np.arange(len(way)), [np.empty(0, dtype=np.int64)]
    while flows.any():
        counts[resources] = 0.0
        level, full = _fullest(room, counts)
        below = cap[uncapped] <= level
        stopped = uncapped[below]
        if len(stopped):
            uncapped = uncapped[~below]
            stopped = stopped[is_open[way[stopped]]]
        if len(stopped):
            # by cap, as sums in another order differ in the last bits; equal caps take the same amount of a resource
            stopped = stopped[np.argsort(cap[stopped])]
            capped.append(stopped)
            ended = np.bincount(way[stopped], minlength=len(uses))
            used, rates = uses[way[stopped]].ravel(), np.repeat(cap[stopped], width)
        else:
            ways = is_open & any_of_columns(uses == full)
            level_of_way[ways] = level
            is_open &= ~ways
            ended = np.where(ways, flows, 0)
            used, rates = np.repeat(uses[ways], flows[ways], axis=0).ravel(), np.array(level)
        flows -= ended
        counts -= _counts(uses, ended, resources)
        # one by one: a product in place of the sum differs in the last bits
        np.subtract.at(room, used, rates)
        np.maximum(room, 0.0, out=room)
    rate = level_of_way[way]
    by_cap = np.concatenate(capped)
    rate[by_cap] = cap[by_cap]
    return rate


def any_of_columns(holds: Bools) -> Bools:
    """(F,) whether any of the K columns is true; for a few columns far faster than reducing each row."""
    any_true = holds[:, 0].copy()
    for column in range(1, holds.shape[1]):
        any_true |= holds[:, column]
    return any_true


def _counts(uses: Ints, flows: Ints, resources: int) -> Floats:
    """(R + 1,) the flows that use each resource, of ways with so many flows."""
    used = np.bincount(uses.ravel(), weights=np.repeat(flows, uses.shape[1]), minlength=resources + 1)
    return np.asarray(used, dtype=np.float64)


def _fullest(room: Floats, counts: Floats) -> tuple[float, int]:
    """The level at which the first resource is full, and that resource; the level is infinite if none limits."""
    level = np.full(len(room), np.inf)
    np.divide(room, counts, out=level, where=counts > 0)
    full = int(level.argmin())
    return float(level[full]), full
