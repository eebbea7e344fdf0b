"""Outages of queues: running jobs are lost, and the broker learns of it late."""

from __future__ import annotations

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

    Args:
        grid: grid whose queues go down.
    """

    def __init__(self, grid: GridWithQueues) -> None:
        self._grid = grid
        for outage in grid.scenario.outages:
            self._plan(outage)

    def _plan(self, outage: Outage) -> None:
        events = self._grid.events
        if outage.announced:
            events.at(max(0.0, outage.start_s - outage.notice_s), self._set_online, outage.queues, False)
        events.at(outage.start_s, self._go_down, outage.queues)
        excluded_s = min(outage.start_s + self._grid.scenario.exclusion_s, outage.end_s)
        events.at(excluded_s, self._set_online, outage.queues, False)
        events.at(outage.end_s, self._come_up, outage.queues)

    def _set_online(self, queues: Iterable[int], online: bool) -> None:
        for queue in queues:
            self._grid.online[queue] = online

    def _go_down(self, queues: Iterable[int]) -> None:
        """Lose all running jobs; the broker learns of it when the heartbeat is missed."""
        grid = self._grid
        for queue in queues:
            grid.up[queue] = False
            for job in list(grid.running[queue]):
                grid.vanish(job)

    def _come_up(self, queues: Iterable[int]) -> None:
        for queue in queues:
            self._grid.up[queue] = True
            self._grid.online[queue] = True
            self._grid.start_jobs(queue)
