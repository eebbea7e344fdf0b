"""Delays of free slots without modelled workers: a waiting pilot requests a job, or a pilot has to start first."""

from __future__ import annotations

import math

from broker.simulation.model.events import EventQueue
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.streams import stream


class PilotDelays:
    """The pilots that wait at each queue; a push queue has none.

    Args:
        scenario: scenario of the simulation.
        seed: seed of the draws.
        events: event queue that keeps the virtual time.
    """

    def __init__(self, scenario: Scenario, seed: int, events: EventQueue) -> None:
        self._pilots, self._events = scenario.pilots, events
        self._most = [0 if queue.mode == "push" else queue.max_waiting_pilots for queue in scenario.queues]
        self._pushed = [queue.mode == "push" for queue in scenario.queues]
        self._waiting = list(self._most)
        self._random = [stream(seed, queue.name, "pilots") for queue in scenario.queues]

    def delay_s(self, queue: int, at_once: bool) -> float:
        """Seconds from a free slot to the start of the job; ``at_once`` if a pilot has just ended another job there."""
        if at_once or self._pushed[queue]:
            return 0.0
        pilots, random = self._pilots, self._random[queue]
        if self._waiting[queue] > 0:
            self._waiting[queue] -= 1
            arrives = pilots.start_median_s * math.exp(pilots.start_s * random.standard_normal())
            self._events.after(arrives, self._arrives, queue)
            return float(random.random()) * pilots.ask_median_s * math.exp(pilots.ask_s * random.standard_normal())
        return pilots.start_median_s * math.exp(pilots.start_s * random.standard_normal())

    def _arrives(self, queue: int) -> None:
        self._waiting[queue] = min(self._waiting[queue] + 1, self._most[queue])
