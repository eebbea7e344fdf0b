"""Input on tape: files are read to disk one by one before the jobs of their task can be brokered."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.events import EventQueue
from broker.simulation.model.records import Tally
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.streams import stream


@dataclass
class _Recall:
    """A task whose files are being read: the number of missing files, and the callback at the end."""

    random: np.random.Generator
    left: int
    then: Callable[[], None]


class Tapes:
    """The tape systems of all sites, each with a queue of requests in the order in which they came.

    A failed request goes to the end of the queue, until its file is read. Draws are made by task, so that they are the
    same for all policies.

    Args:
        scenario: scenario of the simulation.
        seed: seed of the draws.
        events: event queue that keeps the virtual time.
        tally: tally of the simulation.
    """

    def __init__(self, scenario: Scenario, seed: int, events: EventQueue, tally: Tally) -> None:
        self._scenario, self._seed, self._events, self._tally = scenario, seed, events, tally
        self._waiting: list[deque[_Recall]] = [deque() for _ in scenario.sites]
        self._active = [0 for _ in scenario.sites]

    def holds(self, task: Task) -> bool:
        """Whether input of a task must be read from tape; that of jobs running at the beginning has been read."""
        kind = self._scenario.kinds[task.kind]
        reads = kind.input_gb > 0 or kind.wall_s is not None  # the wall time of a calibrated kind includes the input
        if task.running_at >= 0 or not task.sources or not reads:
            return False
        part = self._scenario.tape.part
        return task.on_tape or (part > 0 and float(stream(self._seed, task.number, "on tape").random()) < part)

    def read(self, task: Task, then: Callable[[], None]) -> None:
        """Request the files of a task, one a job, at its first source.

        Args:
            task: task with input on tape.
            then: called when all files have been read.
        """
        recall = _Recall(stream(self._seed, task.number, "tape"), task.jobs, then)
        site = task.sources[0]
        self._waiting[site].extend(recall for _ in range(task.jobs))
        self._start(site)

    def waiting(self, site: int) -> int:
        """Number of requests that wait or are being read at a site."""
        return len(self._waiting[site]) + self._active[site]

    def _start(self, site: int) -> None:
        tape, waiting = self._scenario.tape, self._waiting[site]
        while waiting and self._active[site] < tape.requests_at_once:
            recall = waiting.popleft()
            self._active[site] += 1
            takes_s = tape.median_s * math.exp(tape.spread * recall.random.standard_normal())
            self._events.after(takes_s, self._ended, site, recall)

    def _ended(self, site: int, recall: _Recall) -> None:
        self._active[site] -= 1
        if float(recall.random.random()) < self._scenario.tape.failure:
            self._tally.failed_recalls += 1
            self._waiting[site].append(recall)
        else:
            self._tally.recalled_files += 1
            recall.left -= 1
        self._start(site)
        if recall.left == 0:
            recall.then()
