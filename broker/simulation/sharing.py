"""Max-min fair rates of flows over shared resources: progressive filling.

All rates rise together; a flow stops at its own cap, or when one of its resources is full. Source: Bertsekas and
Gallager, Data Networks, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def fair_rates(
    resources_of: Mapping[int, Sequence[int]], capacity: Mapping[int, float], cap: Mapping[int, float]
) -> dict[int, float]:
    """The rate of each flow.

    Args:
        resources_of: the resources that each flow uses, each once.
        capacity: of each resource, in the unit of rates; a resource without one limits nothing.
        cap: the highest rate of each flow.

    Flows and resources are numbers. Example: links A = 10 (flows f1, f2, f3), B = 4 (f3, f4), C = 20 (f2), no caps: B
    fills first, f3 = f4 = 2; then A has 8 left for two, f1 = f2 = 4.
    """
    rates: dict[int, float] = {}
    users: dict[int, dict[int, None]] = {}
    limited = {flow: [one for one in resources if one in capacity] for flow, resources in resources_of.items()}
    for flow, resources in limited.items():
        for resource in resources:
            users.setdefault(resource, {})[flow] = None
    room = {resource: capacity[resource] for resource in users}
    by_cap = sorted(resources_of, key=cap.__getitem__, reverse=True)
    while len(rates) < len(resources_of):
        level, full = _fullest(users, room)
        stopped = _capped(by_cap, rates, cap, level)
        if not stopped and full is not None:
            stopped = {flow: level for flow in users[full]}
        for flow, rate in stopped.items():
            rates[flow] = rate
            for resource in limited[flow]:
                left = room[resource] - rate
                room[resource] = left if left > 0.0 else 0.0
                del users[resource][flow]
    return rates


def _fullest(users: Mapping[int, Mapping[int, None]], room: Mapping[int, float]) -> tuple[float, int | None]:
    """The level at which the first resource is full, and that resource."""
    level, full = float("inf"), None
    for resource, flows in users.items():
        if flows:
            share = room[resource] / len(flows)
            if share < level:
                level, full = share, resource
    return level, full


def _capped(by_cap: list[int], rates: Mapping[int, float], cap: Mapping[int, float], level: float) -> dict[int, float]:
    """The flows whose cap is not above the level, taken off the end of ``by_cap``."""
    stopped: dict[int, float] = {}
    while by_cap and (by_cap[-1] in rates or cap[by_cap[-1]] <= level):
        flow = by_cap.pop()
        if flow not in rates:
            stopped[flow] = cap[flow]
    return stopped
