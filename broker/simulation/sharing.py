"""Max-min fair rates of flows over shared resources: progressive filling.

All rates rise together; a flow stops at its own cap, or when one of its resources is full. Source: Bertsekas and
Gallager, Data Networks, section 6.5.2.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Ints


def fair_rates(uses: Ints, capacity: Floats, cap: Floats) -> Floats:
    """(F,) the rate of each flow.

    Args:
        uses: (F, K) the resources of each flow, each once; places that are left over hold R.
        capacity: (R,) of each resource, in the unit of rates.
        cap: (F,) the highest rate of each flow.

    Example: links A = 10 (flows f1, f2, f3), B = 4 (f3, f4), C = 20 (f2), no caps: B fills first, f3 = f4 = 2; then A
    has 8 left for two, f1 = f2 = 4.
    """
    flows, width = uses.shape
    resources = len(capacity)
    room = np.append(capacity, 0.0)
    counts = np.bincount(uses.ravel(), minlength=resources + 1).astype(np.float64)
    rates, free = np.zeros(flows), np.ones(flows, dtype=np.bool_)
    by_cap = np.argsort(cap, kind="stable")
    caps = cap[by_cap]
    first, left = 0, flows
    while left:
        counts[resources] = 0.0
        level, full = _fullest(room, counts)
        last = int(np.searchsorted(caps, level, side="right"))
        stopped = by_cap[first:last]
        stopped = stopped[free[stopped]]
        first = max(first, last)
        if len(stopped):
            rates[stopped] = cap[stopped]
        else:
            stopped = np.flatnonzero(free & (uses == full).any(axis=1))
            rates[stopped] = level
        free[stopped] = False
        left -= len(stopped)
        used = uses[stopped].ravel()
        # one after the other, in the order of caps: sums in another order differ in the last bits
        np.subtract.at(room, used, np.repeat(rates[stopped], width))
        np.maximum(room, 0.0, out=room)
        counts -= np.bincount(used, minlength=resources + 1)
    return rates


def _fullest(room: Floats, counts: Floats) -> tuple[float, int]:
    """The level at which the first resource is full, and that resource; infinite where none limits."""
    level = np.full(len(room), np.inf)
    np.divide(room, counts, out=level, where=counts > 0)
    full = int(level.argmin())
    return float(level[full]), full
