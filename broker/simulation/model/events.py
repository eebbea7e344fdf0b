"""The event core: actions at instants of virtual time.

``benchmarks/bench_simulation.py`` measures it against SimPy 4: 408,000 against 305,000 events a second on one core. It
needs no generator for each job, and an event that has become void costs one comparison.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

from broker.simulation.model.errors import SimulationError

#: Maximum events at one instant: more of them form a loop without progress of time.
MOST_EVENTS_AT_ONE_INSTANT = 2_000_000
#: Places reserved for a sequence of actions that are scheduled one after the other.
PLACES = 1 << 40


class EventQueue:
    """Actions in the order of their instants; actions of one instant run in the order in which they were scheduled.

    Attributes:
        now: virtual time in seconds.
        events: number of actions run.
    """

    __slots__ = ("_heap", "_planned", "events", "now")

    def __init__(self, start_s: float = 0.0) -> None:
        self.now = start_s
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action.

        Raises:
            SimulationError: the instant is in the past or not a number.
        """
        if not time_s >= self.now:
            self._refuse(time_s, action)
        if time_s < math.inf:
            self._planned += 1
            heapq.heappush(self._heap, (time_s, self._planned, action, arguments))

    def reserve(self) -> int:
        """Reserve a sequence of places. Returns the first; actions there precede all that are scheduled from now on."""
        first = self._planned + 1
        self._planned += PLACES
        return first

    def in_place(self, time_s: float, place: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action at a place; of the actions of one instant, the one with the lowest place runs first.

        Raises:
            SimulationError: as :meth:`at`.
        """
        if not time_s >= self.now:
            self._refuse(time_s, action)
        heapq.heappush(self._heap, (time_s, place, action, arguments))

    def _refuse(self, time_s: float, action: Callable[..., None]) -> None:
        raise SimulationError(
            f"an event is planned for {time_s} s at {self.now} s of virtual time",
            getattr(action, "__qualname__", str(action)),
            "look for negative or missing times in the scenario",
        )

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action ``delay_s`` from now."""
        time_s = self.now + delay_s
        if not delay_s >= 0:
            self._refuse(time_s, action)
        if time_s < math.inf:
            self._planned += 1
            heapq.heappush(self._heap, (time_s, self._planned, action, arguments))

    def run(self, until_s: float) -> None:
        """Run all actions before ``until_s``, then set the time to that instant.

        Raises:
            SimulationError: time stands still while events continue.
        """
        heap, pop = self._heap, heapq.heappop
        at_once = 0
        while heap and heap[0][0] < until_s:
            time_s, _, action, arguments = pop(heap)
            if time_s > self.now:
                self.now, at_once = time_s, 0
            else:
                at_once += 1
                if at_once > MOST_EVENTS_AT_ONE_INSTANT:
                    raise SimulationError(
                        f"virtual time stands still at {self.now} s",
                        f"{at_once} events at one instant",
                        "look for durations of 0 s in the scenario",
                    )
            self.events += 1
            action(*arguments)
        self.now = max(self.now, until_s)
