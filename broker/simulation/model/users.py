"""Jobs of users and recent starts of jobs, which the analysis brokerage needs in addition to queues."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.scenario import Scenario, Task

#: Starts are counted in pieces of this many seconds, and remembered for six hours.
PIECE_S = 600.0
REMEMBERED_S = 21_600.0
Group = tuple[int, bool]
"""A share, and whether jobs take several cores."""


class Starts:
    """Starts of jobs by queue."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._pieces: dict[int, Floats] = {}

    def add(self, queue: int, now_s: float) -> None:
        """Count a job start at a queue, ``now_s`` seconds into the simulation."""
        piece = int(now_s // PIECE_S)
        if piece not in self._pieces:
            self._pieces[piece] = np.zeros(self._queues)
            for old in [earlier for earlier in self._pieces if earlier < piece - REMEMBERED_S / PIECE_S - 1]:
                del self._pieces[old]
        self._pieces[piece][queue] += 1

    def between(self, first_s: float, last_s: float) -> Floats:
        """(U,) starts from the piece of ``first_s`` up to the piece of ``last_s``, which is excluded."""
        total = np.zeros(self._queues)
        for piece, counts in self._pieces.items():
            if first_s // PIECE_S <= piece < last_s // PIECE_S:
                total += counts
        return total


@dataclass(frozen=True)
class UserReading:
    """Jobs of users at one instant.

    Attributes:
        groups: shares with analysis, by whether their jobs take several cores.
        jobs: (V, G, U, 2) waiting and running jobs of each user.
        starts: (U,) starts in the last six hours.
        starts_an_hour: (U,) starts an hour between six hours and five minutes ago.
    """

    groups: tuple[Group, ...]
    jobs: np.ndarray
    starts: Floats
    starts_an_hour: Floats


class UserLoad:
    """Counts the analysis jobs of each user as they wait, run and end.

    Attributes:
        starts: starts of all jobs.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._kinds, coming = scenario.kinds, scenario.coming
        shapes = {(task.share, task.kind) for task in scenario.tasks} | set(coming.shapes if coming else ())
        groups = sorted({self._group(share, kind) for share, kind in shapes if self._kinds[kind].analysis})
        self._groups: tuple[Group, ...] = tuple(groups)
        self._place = {group: place for place, group in enumerate(groups)}
        own = [task.user for task in scenario.tasks if self._kinds[task.kind].analysis]
        users = max(1 + max(own, default=-1), coming.users if coming else 0)
        self._jobs = np.zeros((users, len(groups), len(scenario.queues), 2), dtype=np.int32)
        self.starts = Starts(len(scenario.queues))

    def _group(self, share: int, kind: str) -> Group:
        return share, self._kinds[kind].cores > 1

    def wait(self, task: Task, queue: int, jobs: int) -> None:
        """Count jobs that wait at a queue from now on; a negative number removes jobs."""
        self._jobs[task.user, self._place[self._group(task.share, task.kind)], queue, 0] += jobs

    def start(self, task: Task, queue: int) -> None:
        """Count a waiting job as running."""
        own = self._jobs[task.user, self._place[self._group(task.share, task.kind)], queue]
        own[0] -= 1
        own[1] += 1

    def end(self, task: Task, queue: int, *, ran: bool) -> None:
        """Remove a job that ran, or that was about to run, from the counts."""
        self._jobs[task.user, self._place[self._group(task.share, task.kind)], queue, int(ran)] -= 1

    def read(self, now_s: float) -> UserReading:
        """Return jobs and starts by user at ``now_s``, in seconds of virtual time."""
        last, first = now_s - 300.0, now_s - REMEMBERED_S
        hours = (last // PIECE_S - first // PIECE_S) * PIECE_S / 3600.0
        return UserReading(
            self._groups,
            self._jobs.copy(),
            self.starts.between(first, now_s + PIECE_S),
            self.starts.between(first, last) / hours,
        )

    def note(self, reading: UserReading, task: Task, queue: int, jobs: int) -> None:
        """Add newly assigned jobs to a reading."""
        if self._kinds[task.kind].analysis:
            reading.jobs[task.user, self._place[self._group(task.share, task.kind)], queue, 0] += jobs
