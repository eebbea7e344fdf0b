"""Workers of Harvester: submitted by demand, they wait in the batch system, take slots and request jobs.

The demand is that of :mod:`broker.pilots.model.pilot_demand`, from which Harvester gets its commands. A worker has the
cores and memory of the job that it was submitted for. It requests jobs of its resource type that are expected to end
before it does, one after the other, until there is none or its walltime is over.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from broker.pilots.model.pilot_demand import (
    FITS,
    STARTS_WINDOW,
    Demand,
    QueueNow,
    Slot,
    Starts,
    WaitingJobs,
    misfits_of,
    pilot_demand,
)
from broker.pilots.model.worker_distribution import SlotType, Workers as Counted
from broker.simulation.model.job_states import Job
from broker.simulation.model.outages import GridWithQueues
from broker.simulation.model.real.grid_rows import RESOURCE_TYPES
from broker.simulation.model.records import Tally
from broker.simulation.model.slots import Nodes, SlotQueue
from broker.simulation.model.streams import stream
from broker.simulation.model.worker_jobs import WorkerJobs

_TYPES = {name: SlotType(least, most, memory) for name, least, most, _, memory in RESOURCE_TYPES}
_WINDOW_S = STARTS_WINDOW.total_seconds()


@dataclass(slots=True, eq=False)
class Worker:
    """A worker of a batch system.

    Attributes:
        lost: whether it vanishes during its first job.
        life: part of the expected run of its first job after which a lost worker vanishes.
        node: node that it runs at, -1 before and afterwards.
        started_s: instant at which it took a slot; NaN before.
        ended_s: instant at which it left its slot; NaN before.
        ends_s: instant at which its walltime is over.
        jobs: number of jobs that it had.
        job: its current job.
    """

    queue: int
    resource_type: str
    cores: int
    memory_gb: float
    submitted_s: float
    lost: bool
    life: float
    priority: float = 0.0
    share: int = 0
    node: int = -1
    started_s: float = math.nan
    ended_s: float = math.nan
    ends_s: float = math.inf
    jobs: int = 0
    job: Job | None = None


class GridWithWorkers(GridWithQueues, Protocol):
    """The part of a grid in which workers run."""

    tally: Tally

    def begin(self, job: Job, node: int, delay_s: float) -> None: ...  # noqa: D102
    def fail(self, job: Job) -> None: ...  # noqa: D102
    def claims(self) -> list[float]: ...  # noqa: D102


class WorkerPool:
    """The workers of all queues.

    Args:
        grid: grid that the workers run in.
        jobs: jobs that wait at each queue.
        seed: seed of the draws; each queue has its own stream, drawn in the order of submission.

    Attributes:
        ended: workers that left their slots, in order, if a list is set before the run; None keeps none.
    """

    def __init__(self, grid: GridWithWorkers, jobs: list[WorkerJobs], seed: int) -> None:
        self._grid, self._jobs, self._settings = grid, jobs, grid.scenario.workers
        queues = grid.scenario.queues
        self._queued: list[dict[str, int]] = [{} for _ in queues]
        self._running: list[dict[Worker, None]] = [{} for _ in queues]
        self._idle: list[dict[Worker, None]] = [{} for _ in queues]
        self._requesters: list[list[Worker]] = [[] for _ in queues]
        self._of: dict[Job, Worker] = {}
        self.ended: list[Worker] | None = None
        self._batch: list[SlotQueue[Worker]] = [
            SlotQueue(Nodes(q.nodes, q.node_cores, q.node_memory_gb), drain_after_s=grid.scenario.drain_after_s)
            for q in queues
        ]
        self._walltimes = [self._settings.walltime_s or queue.maxtime_s for queue in queues]
        self._random = [stream(seed, queue.name, "workers") for queue in queues]
        self._started: list[deque[tuple[float, float]]] = [deque() for _ in queues]
        if self._settings.period_s > 0:
            grid.events.after(self._settings.period_s, self._count_all)

    @property
    def drained_core_s(self) -> float:
        """Core seconds left idle for workers that fitted no node."""
        return sum(batch.drained_core_s for batch in self._batch)

    def serve(self, queue: int) -> None:
        """Let workers without a job request one, after jobs have arrived or ended."""
        requesting, self._requesters[queue] = self._requesters[queue], []
        for worker in requesting:
            if not self._ask(worker):
                self._rest(worker)
        if self._jobs[queue].waiting:
            for worker in list(self._idle[queue]):
                self._ask(worker)
        self._start(queue)
        if self._settings.period_s == 0:
            self._count(queue)

    def already_run(self, queue: int) -> None:
        """Give each waiting job of a queue a worker that takes its slot now: the jobs run from the beginning."""
        for group in self._jobs[queue].groups():
            for _ in range(group.number):
                self._ready(self._submitted(queue, group.resource_type, group.sample.cores, group.sample.memory_gb)[0])

    def left(self, job: Job) -> None:
        """Free the worker of a job that has ended; a worker whose time is over ends with it."""
        worker = self._of.pop(job)
        worker.job = None
        if self._grid.up[worker.queue] and self._grid.events.now < worker.ends_s:
            self._requesters[worker.queue].append(worker)
        else:
            self._stop(worker)

    def violations(self) -> list[str]:
        """Inconsistencies of the current state; empty if it is consistent."""
        problems = []
        for number, batch in enumerate(self._batch):
            name, running = self._grid.scenario.queues[number].name, self._running[number]
            held = sum(worker.cores for worker in running)
            if held != batch.busy_cores or held > batch.nodes.total_cores:
                problems.append(f"{name}: workers hold {held} cores, {batch.busy_cores} counted")
            if self._jobs[number].busy_cores != sum(worker.job.cores for worker in running if worker.job):
                problems.append(f"{name}: {self._jobs[number].busy_cores} cores of jobs counted that no worker has")
            if any(worker.job and worker.memory_gb < worker.job.memory_gb - 1e-9 for worker in running):
                problems.append(f"{name}: a job has more memory than its worker")
            if batch.waiting > sum(self._queued[number].values()):
                problems.append(f"{name}: {batch.waiting} workers wait, {self._queued[number]} counted")
        return problems

    # -- demand

    def _count_all(self) -> None:
        self._grid.events.after(self._settings.period_s, self._count_all)
        for queue in range(len(self._jobs)):
            self._count(queue)

    def _count(self, queue: int) -> None:
        """Submit the workers that a queue can use now."""
        jobs = self._jobs[queue]
        if not jobs.waiting and not self._settings.limits.kept_idle:
            return
        now, columns = self._queue_now(queue), jobs.columns(self._grid.claims())
        for demand in pilot_demand(now, columns):
            for cores, memory_gb in self._sizes(queue, now.slot, columns, demand):
                worker, wait_s = self._submitted(queue, demand.resource_type, cores, memory_gb)
                self._grid.events.after(wait_s, self._ready, worker)

    def _queue_now(self, queue: int) -> QueueNow:
        own, scenario = self._grid.scenario.queues[queue], self._grid.scenario
        walltime_s = self._walltimes[queue]
        slot = Slot(own.node_cores, own.node_memory_gb * 1024.0, walltime_s if math.isfinite(walltime_s) else 0.0)
        counted = {name: Counted(submitted=number) for name, number in self._queued[queue].items() if number}
        for worker in self._running[queue]:
            counts = counted.get(worker.resource_type, Counted())
            counted[worker.resource_type] = Counted(counts.running + 1, counts.submitted)
        status = "online" if self._grid.online[queue] else "offline"
        return QueueNow(status, slot, scenario.workers.limits, counted, self._starts(queue), _TYPES)

    def _starts(self, queue: int) -> Starts:
        """Recent starts of workers, and the time below which four in five of them waited."""
        started, since_s = self._started[queue], self._grid.events.now - _WINDOW_S
        while started and started[0][0] <= since_s:
            started.popleft()
        if not started:
            return Starts()
        waits_s = np.sort(np.array([waited_s for _, waited_s in started]))
        return Starts(len(waits_s), _WINDOW_S, float(np.quantile(waits_s, 0.8)))

    def _sizes(self, queue: int, slot: Slot, jobs: WaitingJobs, demand: Demand) -> Iterator[tuple[int, float]]:
        """Cores and GB of the workers of a demand: those of the jobs not covered by waiting workers, in order."""
        wanted, covered = demand.wanted or 0, self._queued[queue].get(demand.resource_type, 0)
        fits = (misfits_of(slot, jobs) == FITS) & (jobs.resource_type == demand.resource_type)
        own = self._jobs[queue].groups_in(self._grid.claims())
        for group in [candidate for candidate, is_fitting in zip(own, fits.tolist(), strict=True) if is_fitting]:
            passed = min(covered, group.number)
            covered -= passed
            number = min(wanted, group.number - passed)
            wanted -= number
            for _ in range(number):
                yield group.sample.cores, group.sample.memory_gb
        for _ in range(wanted if not demand.fitting else 0):  # kept idle
            yield 1, slot.memory_mb / 1024.0 / max(1, slot.cores)

    def _submitted(self, queue: int, resource_type: str, cores: int, memory_gb: float) -> tuple[Worker, float]:
        """Create a worker. Returns it and its wait in the batch system."""
        own, settings, random = self._grid.scenario.queues[queue], self._settings, self._random[queue]
        median_s, spread = own.worker_wait or (settings.wait_median_s, settings.wait_spread)
        wait_s = median_s * math.exp(spread * random.standard_normal())
        lost, life = float(random.random()) < settings.lost, float(random.random())
        queued = self._queued[queue]
        queued[resource_type] = queued.get(resource_type, 0) + 1
        self._grid.tally.workers += 1
        return Worker(queue, resource_type, cores, memory_gb, self._grid.events.now, lost, life), wait_s

    # -- one worker

    def _ready(self, worker: Worker) -> None:
        """Let a worker take a slot of the batch system from now on."""
        self._batch[worker.queue].add(worker)
        self._start(worker.queue)

    def _start(self, queue: int) -> None:
        if not self._grid.up[queue]:
            return
        events = self._grid.events
        for worker, node in self._batch[queue].starts(events.now):
            self._queued[queue][worker.resource_type] -= 1
            self._running[queue][worker] = None
            self._started[queue].append((events.now, events.now - worker.submitted_s))
            worker.node, worker.started_s = node, events.now
            worker.ends_s = events.now + self._walltimes[queue]
            events.at(worker.ends_s, self._time_is_over, worker)
            if not self._ask(worker):
                self._rest(worker)

    def _ask(self, worker: Worker) -> bool:
        """Let a worker request a job. Returns whether it got one."""
        grid, queue = self._grid, worker.queue
        if not (grid.up[queue] and grid.online[queue]):
            return False
        job = self._jobs[queue].take(
            worker.resource_type, worker.cores, worker.memory_gb, worker.ends_s - grid.events.now
        )
        if job is None:
            return False
        self._idle[queue].pop(worker, None)
        self._of[job], worker.job = worker, job
        worker.jobs += 1
        grid.begin(job, worker.node, 0.0)
        if worker.lost and worker.jobs == 1:
            grid.events.after(worker.life * job.believed_s, self._vanish, worker, job)
        return True

    def _rest(self, worker: Worker) -> None:
        """Keep a worker without a job idle for a while, or stop it."""
        if self._settings.idle_s <= 0 or self._grid.events.now >= worker.ends_s:
            self._stop(worker)
        else:
            self._idle[worker.queue][worker] = None
            self._grid.events.after(self._settings.idle_s, self._idle_is_over, worker, worker.jobs)

    def _idle_is_over(self, worker: Worker, jobs: int) -> None:
        if worker in self._idle[worker.queue] and worker.jobs == jobs:
            self._stop(worker)
            self._start(worker.queue)

    def _time_is_over(self, worker: Worker) -> None:
        if worker.node < 0:
            return
        if worker.job is not None:
            self._grid.tally.over_walltime += 1
            self._grid.fail(worker.job)
        else:
            self._stop(worker)
            self._start(worker.queue)

    def _vanish(self, worker: Worker, job: Job) -> None:
        """Lose a worker with its job; the loss is detected when the heartbeat is missed."""
        if worker.job is not job:
            return
        self._grid.tally.lost_workers += 1
        worker.ends_s = self._grid.events.now
        self._grid.vanish(job)
        self._start(worker.queue)

    def _stop(self, worker: Worker) -> None:
        self._idle[worker.queue].pop(worker, None)
        self._running[worker.queue].pop(worker)
        self._batch[worker.queue].release(worker, worker.node)
        self._grid.tally.empty_workers += int(worker.jobs == 0)
        worker.node, worker.ended_s = -1, self._grid.events.now
        if self.ended is not None:
            self.ended.append(worker)
