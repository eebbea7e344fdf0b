"""Transfers in progress over shared storages and links, at max-min fair rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.events import EventQueue
from broker.simulation.model.fair_rates import any_of_columns, fair_rates

#: A flow whose rate changes by less than this part keeps its rate and its end.
SAME_RATE = 1e-9
#: Resources that one flow may use: storage out, link, storage in.
MOST_RESOURCES = 3
_FIRST_SLOTS = 64


class FlowRoutes:
    """The ways that flows take, each a set of resources; way 0 is that of an empty slot.

    Args:
        nothing: the number that stands for no resource.

    Attributes:
        uses: (W, MOST_RESOURCES) numbers of the resources of each way.
        flows: (W,) flows in progress on each way.
        resources: the same numbers as in ``uses``, for access to single ways.
    """

    def __init__(self, nothing: int) -> None:
        self.uses: Ints = np.full((_FIRST_SLOTS, MOST_RESOURCES), nothing, dtype=np.int64)
        self.flows: Ints = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self.resources: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}

    def number(self, resources: tuple[int, ...]) -> int:
        """Return the number of the way over these resources."""
        number = self._numbers.get(resources)
        if number is not None:
            return number
        self._numbers[resources] = number = len(self.resources)
        self.resources.append(resources)
        if number == len(self.flows):
            self.uses = np.concatenate([self.uses, np.full_like(self.uses, self.uses[0, 0])])
            self.flows = np.concatenate([self.flows, np.zeros_like(self.flows)])
        self.uses[number, : len(resources)] = resources
        return number


class FlowColumns:
    """The flows in progress, each in a slot.

    Args:
        nothing: the number that stands for no resource.

    Attributes:
        ways: the ways that flows take.
        way: (N,) number of the way of each flow, 0 for an empty slot.
        cap: (N,) highest rate, bytes/s.
        rate: (N,) current rate, bytes/s.
        size: (N,) total bytes.
        remaining: (N,) bytes left at ``updated_s``.
        end_s: (N,) instant of the end at the current rate, infinite for an empty slot.
        done: callback at the end.
        most: a copy of ``cap`` for access to single flows.
    """

    def __init__(self, nothing: int) -> None:
        self.ways = FlowRoutes(nothing)
        self.way: Ints = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self.cap, self.rate, self.size, self.remaining, self.updated_s = np.zeros((5, _FIRST_SLOTS))
        self.end_s: Floats = np.full(_FIRST_SLOTS, np.inf)
        self.done: list[Callable[[], None] | None] = [None] * _FIRST_SLOTS
        self.number = [0] * _FIRST_SLOTS
        self.most = [0.0] * _FIRST_SLOTS
        self._empty = list(range(_FIRST_SLOTS - 1, -1, -1))

    def add(
        self, number: int, uses: tuple[int, ...], size: float, cap: float, now_s: float, done: Callable[[], None]
    ) -> int:
        """Put a flow with rate 0 into a slot. Returns the slot."""
        if not self._empty:
            self._double()
        slot = self._empty.pop()
        way = self.ways.number(uses)
        self.ways.flows[way] += 1
        self.way[slot] = way
        self.cap[slot], self.size[slot], self.remaining[slot] = cap, size, size
        self.rate[slot], self.updated_s[slot] = 0.0, now_s
        self.done[slot], self.number[slot] = done, number
        self.most[slot] = cap
        return slot

    def remove(self, slot: int) -> None:
        """Free the slot of a transfer that has ended."""
        self.ways.flows[self.way[slot]] -= 1
        self.way[slot] = 0
        self.end_s[slot] = np.inf
        self.done[slot] = None
        self._empty.append(slot)

    def advance(self, slots: Ints | int, now_s: float) -> None:
        """Update the remaining bytes of flows to an instant."""
        moved = self.rate[slots] * (now_s - self.updated_s[slots])
        self.remaining[slots] = np.maximum(0.0, self.remaining[slots] - moved)
        self.updated_s[slots] = now_s

    def set_rates(self, slots: Ints, rates: Floats, now_s: float) -> None:
        """Change the rates of flows from now on; a flow of rate 0 has no end."""
        self.advance(slots, now_s)
        self.rate[slots] = rates
        takes_s = np.full(len(slots), np.inf)
        np.divide(self.remaining[slots], rates, out=takes_s, where=rates > 0)
        self.end_s[slots] = now_s + takes_s

    def _double(self) -> None:
        slots = len(self.done)
        self.way = np.concatenate([self.way, np.zeros_like(self.way)])
        for name in ("cap", "rate", "size", "remaining", "updated_s"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(slots)]))
        self.end_s = np.concatenate([self.end_s, np.full(slots, np.inf)])
        self.done += [None] * slots
        self.number += [0] * slots
        self.most += [0.0] * slots
        self._empty = list(range(2 * slots - 1, slots - 1, -1))


@dataclass
class NetworkTotals:
    """Bytes sent so far: started = arrived + lost + in flight."""

    started: float = 0.0
    arrived: float = 0.0
    lost: float = 0.0
    recomputed: int = 0
    starts: int = 0


class Network:
    """Flows over resources.

    Args:
        events: event queue that keeps the virtual time.
        capacity: (R,) bytes/s of each resource.
        batch_s: starts and ends within this many seconds share one computation of rates.

    Raises:
        SimulationError: a capacity is not positive.
    """

    def __init__(self, events: EventQueue, capacity: Floats, batch_s: float = 1.0) -> None:
        for resource in np.flatnonzero(~(capacity > 0))[:1]:
            raise SimulationError(
                f"a bandwidth of {capacity[resource]} bytes/s",
                f"resource {resource}",
                "a link needs a positive bandwidth",
            )
        self._events, self._batch_s = events, batch_s
        resources = len(capacity)
        self._capacity: Floats = np.append(capacity, 0.0)
        self._limit: list[float] = capacity.tolist()
        self._users, self._caps = [0] * resources, [0.0] * resources
        #: Whether the flows of a resource can fill it; the last place stands for no resource.
        self._tight: Bools = np.zeros(resources + 1, dtype=np.bool_)
        self._is_tight = [False] * resources
        self._reached: Bools = np.zeros(resources + 1, dtype=np.bool_)
        self._place: Ints = np.zeros(resources + 1, dtype=np.int64)
        self._changed: dict[int, None] = {}
        self._planned = False
        self._columns = FlowColumns(resources)
        self._slot: dict[int, int] = {}
        self._wakes_s, self._wake_version = math.inf, 0
        #: The slot whose flow ends first; -1 if it has to be searched.
        self._first = -1
        self.totals = NetworkTotals()

    def start(self, resources: tuple[int, ...], size: float, cap: float, done: Callable[[], None]) -> int:
        """Start a transfer of ``size`` bytes; ``done`` is called at its end. Returns its number.

        Args:
            resources: at most MOST_RESOURCES different resources.
            size: bytes.
            cap: highest rate, bytes/s.
            done: callback at the end.

        Raises:
            SimulationError: the cap is not positive.
        """
        if not cap > 0:
            raise SimulationError(f"a transfer of at most {cap} bytes/s", "", "rates of stage-in are positive")
        now_s, totals = self._events.now, self.totals
        totals.starts += 1
        totals.started += size
        number = totals.starts
        slot = self._columns.add(number, resources, size, cap, now_s, done)
        self._slot[number] = slot
        for resource in resources:
            self._users[resource] += 1
            self._caps[resource] += cap
            self._update_tight(resource)
        tight = [resource for resource in resources if self._is_tight[resource]]
        if tight:
            self._change(tight)
        else:
            columns = self._columns
            columns.rate[slot] = cap
            columns.end_s[slot] = end_s = now_s + size / cap
            if end_s <= self._wakes_s:
                self._first = -1
            if end_s < self._wakes_s:
                self._wake_at(end_s)
        return number

    def cancel(self, number: int) -> None:
        """Stop a transfer; the bytes that have arrived are lost. A transfer that has ended is left alone."""
        slot = self._slot.get(number)
        if slot is not None:
            columns = self._columns
            columns.advance(slot, self._events.now)
            remaining = float(columns.remaining[slot])
            self.totals.lost += float(columns.size[slot]) - remaining
            self.totals.started -= remaining
            self._remove(slot)

    def in_flight(self) -> float:
        """Bytes of the transfers in progress."""
        return float(sum(self._columns.size[slot] for slot in self._slot.values()))

    def _update_tight(self, resource: int) -> None:
        """Update whether the flows of a resource can fill it, after its flows have changed."""
        tight = self._caps[resource] > self._limit[resource]
        if tight != self._is_tight[resource]:
            self._is_tight[resource] = self._tight[resource] = tight

    def _change(self, resources: list[int]) -> None:
        self._changed.update(dict.fromkeys(resources))
        if not self._planned:
            self._planned = True
            self._events.after(self._batch_s, self._recompute)

    def _recompute(self) -> None:
        self._planned = False
        columns, now_s = self._columns, self._events.now
        connected = self._component()
        slots = np.flatnonzero(connected.take(columns.way))
        self._changed.clear()
        self.totals.recomputed += 1
        rates = self._rates_of(slots, connected)
        old = columns.rate[slots]
        moved = np.abs(rates - old) > SAME_RATE * np.maximum(rates, old)
        columns.set_rates(slots[moved], rates[moved], now_s)
        first_s = self._first_end()
        if first_s < self._wakes_s:
            self._wake_at(first_s)

    def _component(self) -> Bools:
        """(W,) the ways with flows that are connected to the changed resources.

        A way is connected that uses a changed resource, or shares a full one with a connected way.
        """
        reached, ways = self._reached, self._columns.ways
        reached[:] = False
        reached[list(self._changed)] = True
        connected = np.zeros(len(ways.flows), dtype=np.bool_)
        used = ways.flows > 0
        while True:
            more = any_of_columns(reached.take(ways.uses)) & used & ~connected
            if not more.any():
                return connected
            connected |= more
            neighbours = ways.uses[more].ravel()
            reached[neighbours[self._tight[neighbours]]] = True

    def _rates_of(self, slots: Ints, connected: Bools) -> Floats:
        """(F,) fair rates of the flows in these slots; only resources that can be full count as limits."""
        columns = self._columns
        ways = np.flatnonzero(connected)
        uses = columns.ways.uses[ways]
        uses = np.where(self._tight.take(uses), uses, len(self._limit))
        limiting = self._reached
        limiting[:] = False
        limiting[uses] = True
        limiting[-1] = False
        numbers = np.flatnonzero(limiting)
        self._place[numbers] = np.arange(len(numbers))
        self._place[-1] = len(numbers)
        place_of_way = np.cumsum(connected) - 1
        way = place_of_way.take(columns.way[slots])
        return fair_rates(way, self._place.take(uses), self._capacity[numbers], columns.cap[slots])

    def _first_end(self) -> float:
        """Find the flow that ends first. Returns the instant of its end, infinite if there is no flow."""
        ends_s = self._columns.end_s
        self._first = int(ends_s.argmin())
        return float(ends_s[self._first])

    def _wake_at(self, time_s: float) -> None:
        """Schedule the check of the flow that ends first; an earlier schedule becomes void."""
        self._wakes_s = time_s
        self._wake_version += 1
        self._events.at(time_s, self._wake, self._wake_version)

    def _wake(self, version: int) -> None:
        """End the flow that is due, if any: rates may have fallen since this check was scheduled."""
        if version != self._wake_version:
            return
        columns = self._columns
        if self._first < 0:
            self._first_end()
        slot = self._first
        done = columns.done[slot]
        ends = done is not None and columns.end_s[slot] <= self._events.now
        if ends:
            self.totals.arrived += float(columns.size[slot])
            self._remove(slot)
        self._wake_at(self._first_end())
        if ends and done is not None:
            done()

    def _remove(self, slot: int) -> None:
        columns = self._columns
        cap, resources = columns.most[slot], columns.ways.resources[columns.way[slot]]
        tight = [resource for resource in resources if self._is_tight[resource]]
        for resource in resources:
            self._users[resource] -= 1
            self._caps[resource] -= cap
            if not self._users[resource]:
                self._caps[resource] = 0.0
            self._update_tight(resource)
        del self._slot[columns.number[slot]]
        columns.remove(slot)
        if slot == self._first:
            self._first = -1
        if tight:
            self._change(tight)
