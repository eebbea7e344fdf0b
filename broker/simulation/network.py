"""Transfers in progress over shared storages and links, at max-min fair rates.

Only the flows that a start or an end can touch are given new rates: those connected through resources that can be
full. A resource whose flows cannot fill it, whatever their rates, connects nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.simulation.errors import SimulationError
from broker.simulation.events import EventQueue
from broker.simulation.sharing import fair_rates

#: A rate that changes by less than this part of itself keeps its end.
SAME_RATE = 1e-9


@dataclass(slots=True)
class Flow:
    """One transfer.

    Attributes:
        number: in order of starts.
        resources: numbers of the resources it uses.
        cap: highest rate, bytes/s.
        size: bytes in all.
        remaining: bytes to go at ``updated_s``.
        rate: bytes/s since then.
        done: what happens at the end.
    """

    number: int
    resources: tuple[int, ...]
    cap: float
    size: float
    remaining: float
    updated_s: float
    done: Callable[[], None]
    rate: float = 0.0
    version: int = 0


@dataclass
class NetworkTotals:
    """Bytes sent so far: started = arrived + lost + in flight."""

    started: float = 0.0
    arrived: float = 0.0
    lost: float = 0.0
    recomputed: int = 0
    starts: int = 0
    by_resource: dict[int, float] = field(default_factory=dict)


class Network:
    """Flows over resources.

    Args:
        events: the virtual time.
        capacity: bytes/s of each resource.
        batch_s: starts and ends within so many seconds are given their rates together.

    Raises:
        SimulationError: a capacity is not positive.
    """

    def __init__(self, events: EventQueue, capacity: dict[int, float], batch_s: float = 1.0) -> None:
        for resource, value in capacity.items():
            if not value > 0:
                raise SimulationError(
                    f"a bandwidth of {value} bytes/s", f"resource {resource}", "a link needs a positive bandwidth"
                )
        self._events, self._capacity, self._batch_s = events, capacity, batch_s
        self._users: dict[int, dict[int, None]] = {resource: {} for resource in capacity}
        self._caps: dict[int, float] = dict.fromkeys(capacity, 0.0)
        self._tight: dict[int, float] = {}
        self._changed: dict[int, None] = {}
        self._planned = False
        self.flows: dict[int, Flow] = {}
        self.totals = NetworkTotals()

    def start(self, resources: tuple[int, ...], size: float, cap: float, done: Callable[[], None]) -> int:
        """Start a transfer of ``size`` bytes; ``done`` is called at its end. Returns its number.

        Raises:
            SimulationError: the cap is not positive.
        """
        if not cap > 0:
            raise SimulationError(f"a transfer of at most {cap} bytes/s", "", "rates of stage-in are positive")
        used = tuple(dict.fromkeys(resource for resource in resources if resource in self._capacity))
        self.totals.starts += 1
        flow = Flow(self.totals.starts, used, cap, size, size, self._events.now, done)
        self.flows[flow.number] = flow
        self.totals.started += size
        for resource in used:
            self._users[resource][flow.number] = None
            self._caps[resource] += cap
            self._look_at(resource)
        tight = [resource for resource in used if resource in self._tight]
        if tight:
            self._change(tight)
        else:
            self._set_rate(flow, cap)
        return flow.number

    def cancel(self, number: int) -> None:
        """Stop a transfer; what has arrived of it is lost. One that has ended is left alone."""
        flow = self.flows.get(number)
        if flow is not None:
            self._advance(flow)
            self.totals.lost += flow.size - flow.remaining
            self.totals.started -= flow.remaining
            self._remove(flow)

    def in_flight(self) -> float:
        """Bytes of the transfers in progress."""
        return sum(flow.size for flow in self.flows.values())

    def _look_at(self, resource: int) -> None:
        """Note whether the flows of a resource can fill it, after its flows have changed."""
        if self._caps[resource] > self._capacity[resource]:
            self._tight[resource] = self._capacity[resource]
        else:
            self._tight.pop(resource, None)

    def _change(self, resources: list[int]) -> None:
        self._changed.update(dict.fromkeys(resources))
        if not self._planned:
            self._planned = True
            self._events.after(self._batch_s, self._recompute)

    def _recompute(self) -> None:
        self._planned = False
        component = self._component()
        self._changed.clear()
        self.totals.recomputed += 1
        flows = {number: self.flows[number] for number in component}
        uses = {number: flow.resources for number, flow in flows.items()}
        rates = fair_rates(uses, self._tight, {number: flow.cap for number, flow in flows.items()})
        for number, rate in rates.items():
            flow = flows[number]
            if abs(rate - flow.rate) > SAME_RATE * max(rate, flow.rate):
                self._set_rate(flow, rate)

    def _component(self) -> dict[int, None]:
        """The flows that share a resource that can be full with what has changed, directly or by others."""
        found: dict[int, None] = {}
        resources = list(self._changed)
        seen = set(resources)
        while resources:
            for number in self._users[resources.pop()]:
                if number in found:
                    continue
                found[number] = None
                for other in self.flows[number].resources:
                    if other not in seen and other in self._tight:
                        seen.add(other)
                        resources.append(other)
        return found

    def _advance(self, flow: Flow) -> None:
        now = self._events.now
        flow.remaining = max(0.0, flow.remaining - flow.rate * (now - flow.updated_s))
        flow.updated_s = now

    def _set_rate(self, flow: Flow, rate: float) -> None:
        self._advance(flow)
        flow.rate = rate
        flow.version += 1
        if rate > 0:
            self._events.after(flow.remaining / rate, self._end, flow.number, flow.version)

    def _end(self, number: int, version: int) -> None:
        flow = self.flows.get(number)
        if flow is None or flow.version != version:
            return
        self.totals.arrived += flow.size
        self._remove(flow)
        flow.done()

    def _remove(self, flow: Flow) -> None:
        del self.flows[flow.number]
        tight = [resource for resource in flow.resources if resource in self._tight]
        for resource in flow.resources:
            del self._users[resource][flow.number]
            self._caps[resource] -= flow.cap
            if not self._users[resource]:
                self._caps[resource] = 0.0
            self._look_at(resource)
        if tight:
            self._change(tight)
