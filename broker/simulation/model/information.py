"""The view of the grid that a policy has: readings of a certain age, and its own assignments since.

Statistics of jobs are a minute old, the state of queues some minutes, network and space half an hour. Fresh information
flatters policies that chase the emptiest queue: with readings of 15 minutes and no counters of their own they are far
worse than chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.simulation.model.grid import Grid
from broker.simulation.model.records import RunLog
from broker.simulation.model.scenario import Task
from broker.simulation.model.users import UserReading

#: Delay of a reading after its period begins: a cycle at that very instant still sees the previous reading.
READING_TAKES_S = 1.0


@dataclass(frozen=True)
class QueueFacts:
    """Published figures of the queues (length U), which do not change during a simulation."""

    site: Ints
    cores: Ints
    node_cores: Ints
    node_memory_gb: Floats
    corepower: Floats


@dataclass(frozen=True)
class GridView:
    """The grid as a policy sees it.

    Attributes:
        now_s: instant of the decision.
        queues: static figures of the queues.
        counts: (U, S, status) jobs as last read.
        assigned: (U, S) jobs assigned since that reading; 0 if own counters are disabled.
        online: (U,) whether each queue was online when last read.
        busy_cores: (U,) cores of running and starting jobs.
        waiting_cores: (U,) cores of jobs that wait, or were assigned since.
        outcomes: (U, 2) finished and failed runs so far.
        share_hs06: (S,) HS06 of running jobs.
        last_start_s: (U,) last start of a job as last read, NaN if none.
        queued: (site, nucleus) output transfers as last read.
        free_bytes: (sites,) free space as last read.
        targets: (S,) weights of shares, with sum 1.
        users: jobs of users, including those assigned since, and recent starts.
        jobs_read_s, links_read_s, storages_read_s: instants of the readings.
        own_counters: whether assigned jobs are counted before the next reading.
        runs: all runs of jobs, of which the first ``runs_read`` had ended at the reading; None if no runs are logged.
    """

    now_s: float
    queues: QueueFacts
    counts: Floats
    assigned: Floats
    online: Bools
    last_start_s: Floats
    busy_cores: Floats
    waiting_cores: Floats
    outcomes: Floats
    share_hs06: Floats
    queued: dict[tuple[int, int], int]
    free_bytes: Floats
    targets: Floats
    users: UserReading
    jobs_read_s: float
    links_read_s: float
    storages_read_s: float
    own_counters: bool = True
    runs: RunLog | None = None
    runs_read: int = 0

    def waiting(self) -> Floats:
        """(U,) jobs that wait or start, including those assigned since."""
        return np.asarray(self.counts[:, :, :4].sum(axis=(1, 2)) + self.assigned.sum(axis=1))

    def running(self) -> Floats:
        """Return the number of running jobs of each unified queue, (U,)."""
        return np.asarray(self.counts[:, :, 4].sum(axis=1))


class Information:
    """Readings of the grid, each renewed at its own period; with a period of 0 it is renewed for every view."""

    def __init__(self, grid: Grid) -> None:
        scenario = grid.scenario
        self._grid, self._ages = grid, scenario.ages
        queues = scenario.queues
        self._facts = QueueFacts(
            np.array([queue.site for queue in queues], dtype=np.int64),
            np.array([queue.cores for queue in queues], dtype=np.int64),
            np.array([queue.node_cores for queue in queues], dtype=np.int64),
            np.array([queue.node_memory_gb for queue in queues]),
            np.array([queue.corepower for queue in queues]),
        )
        weights = np.array([weight for _, weight in scenario.shares])
        self._targets = weights / weights.sum()
        self.assigned = np.zeros(grid.counts.shape[:2])
        self._read_jobs()
        self._read_queues()
        self._read_links()
        self._read_storages()
        readings = (
            (self._ages.jobs_s, self._read_jobs),
            (self._ages.queues_s, self._read_queues),
            (self._ages.network_s, self._read_links),
            (self._ages.storages_s, self._read_storages),
        )
        self._fresh = [read for period, read in readings if period == 0]
        for period, read in readings:
            if period > 0:
                grid.events.after(period + READING_TAKES_S, self._again, period, read)

    def _again(self, period: float, read: Callable[[], None]) -> None:
        read()
        self._grid.events.after(period, self._again, period, read)

    def _read_jobs(self) -> None:
        self._counts = self._grid.counts.copy()
        self._last_start = self._grid.last_start_s.copy()
        self._busy = np.array([slots.busy_cores for slots in self._grid.slots], dtype=np.float64)
        self._waiting = np.array([slots.waiting_cores for slots in self._grid.slots], dtype=np.float64)
        self._outcomes = self._grid.outcomes.copy()
        self._share_hs06 = self._grid.share_hs06.copy()
        self._users = self._grid.users.read(self._grid.events.now)
        self._jobs_at = self._grid.events.now
        self._runs_read = len(self._grid.log)
        self.assigned = np.zeros_like(self.assigned)

    def _read_queues(self) -> None:
        self._online = self._grid.online.copy()

    def _read_links(self) -> None:
        self._queued = self._grid.transfers.links_in_use()
        self._links_at = self._grid.events.now

    def _read_storages(self) -> None:
        self._free = np.array(self._grid.storages.free())
        self._storages_at = self._grid.events.now

    def note(self, task: Task, queue: int, jobs: int, cores: int) -> None:
        """Count assigned jobs of a task."""
        if self._ages.own_counters:
            self.assigned[queue, task.share] += jobs
            self._waiting[queue] += jobs * cores
            self._grid.users.note(self._users, task, queue, jobs)

    def view(self) -> GridView:
        """Read the figures that are due, and return all as the broker sees them now."""
        for read in self._fresh:
            read()
        return GridView(
            now_s=self._grid.events.now,
            queues=self._facts,
            counts=self._counts,
            assigned=self.assigned,
            online=self._online,
            last_start_s=self._last_start,
            busy_cores=self._busy,
            waiting_cores=self._waiting,
            outcomes=self._outcomes,
            share_hs06=self._share_hs06,
            queued=self._queued,
            free_bytes=self._free,
            targets=self._targets,
            users=self._users,
            jobs_read_s=self._jobs_at,
            links_read_s=self._links_at,
            storages_read_s=self._storages_at,
            own_counters=self._ages.own_counters,
            runs=self._grid.log,
            runs_read=self._runs_read,
        )
