"""Outages of queues: running jobs are lost, and the broker learns of it late."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from broker.domain.arrays import Bools
from broker.simulation.model.events import EventQueue
from broker.simulation.model.job_states import Job
from broker.simulation.model.scenario import Outage, Scenario


class GridWithQueues(Protocol):
    """The part of a grid that outages affect."""

    scenario: Scenario
    events: EventQueue
    online: Bools
    up: Bools
    running: list[dict[Job, None]]

    def vanish(self, job: Job) -> None: ...  # noqa: D102
    def start_jobs(self, queue: int, at_once: bool = False) -> None: ...  # noqa: D102


class Outages:
    """The outages of a scenario, scheduled when it begins.

    Those of one queue may overlap: it is down until the last of them is over, and excluded until the last of those that
    the broker knows is over.

    Args:
        grid: grid whose queues go down.
    """

    def __init__(self, grid: GridWithQueues) -> None:
        self._grid = grid
        self._lasting: defaultdict[int, set[int]] = defaultdict(set)
        self._known: defaultdict[int, set[int]] = defaultdict(set)
        for number, outage in enumerate(grid.scenario.outages):
            self._plan(number, outage)

    def _plan(self, number: int, outage: Outage) -> None:
        events = self._grid.events
        if outage.announced:
            events.at(max(0.0, outage.start_s - outage.notice_s), self._exclude, number, outage.queues)
        events.at(outage.start_s, self._go_down, number, outage.queues)
        excluded_s = min(outage.start_s + self._grid.scenario.exclusion_s, outage.end_s)
        events.at(excluded_s, self._exclude, number, outage.queues)
        events.at(outage.end_s, self._come_up, number, outage.queues)

    def _exclude(self, outage: int, queues: Iterable[int]) -> None:
        for queue in queues:
            self._known[queue].add(outage)
            self._grid.online[queue] = False

    def _go_down(self, outage: int, queues: Iterable[int]) -> None:
        """Lose all running jobs; the broker learns of it when the heartbeat is missed."""
        grid = self._grid
        for queue in queues:
            self._lasting[queue].add(outage)
            grid.up[queue] = False
            for job in list(grid.running[queue]):
                grid.vanish(job)

    def _come_up(self, outage: int, queues: Iterable[int]) -> None:
        for queue in queues:
            self._lasting[queue].discard(outage)
            self._known[queue].discard(outage)
            self._grid.up[queue] = not self._lasting[queue]
            self._grid.online[queue] = not self._known[queue]
            self._grid.start_jobs(queue)


def spans_down(scenario: Scenario, queue: int) -> list[tuple[float, float]]:
    """The spans in which a queue is down, in order; what several outages cover is in one of them only."""
    spans: list[tuple[float, float]] = []
    reached = -math.inf
    own = ((outage.start_s, outage.end_s) for outage in scenario.outages if queue in outage.queues)
    for start_s, end_s in sorted(own):
        if end_s > reached:
            spans.append((max(start_s, reached), end_s))
            reached = end_s
    return spans
