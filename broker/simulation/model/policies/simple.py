"""Simple policies: chance, the shortest queue, the least loaded, the data. All keep to queues that fit."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.domain.decisions import RETRY_AFTER
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.policies.base import Assignment, FittingQueues, WaitingJobs, nucleus_by_space
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.streams import stream

#: A task that found no queue is looked at again after so long.
RETRY_S = 600.0
#: Part of its slots by which a queue without the input counts as fuller.
REMOTE_PENALTY = 0.5


class SimplePolicy:
    """Assigns every job of every task at once.

    Args:
        scenario: of the simulation.
        seed: of the draws.
    """

    name = ""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        self._fitting = FittingQueues(scenario)
        self._random = stream(seed, self.name, "policy")

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """Drawn by free space."""
        return [nucleus_by_space(self._scenario, self._seed, view, state.task) for state in tasks]

    def retry_s(self, task: TaskState) -> float:
        """A task that found no queue waits for ten minutes."""
        return RETRY_S if task.unassigned else 0.0

    def retry_nucleus_s(self) -> float:
        """As long as a task waits that found no nucleus."""
        return RETRY_AFTER.total_seconds()

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Jobs that have waited longer than the scenario's timeout."""
        since = np.asarray(waiting.since_s)
        return np.flatnonzero(view.now_s - since > self._scenario.job_timeout_s).tolist()

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign all unassigned jobs, task by task, to queues that fit their task; a task that fits none waits."""
        load = view.waiting() + view.running()
        assignments = []
        for state in tasks:
            queues = np.flatnonzero(self._fitting.feasible(view, state))
            if not len(queues):
                continue
            chosen = self._choose(view, state, queues, load)
            found, jobs = np.unique(chosen, return_counts=True)
            if view.own_counters:
                np.add.at(load, found, jobs)
            assignments += [
                Assignment(state.task.number, int(queue), int(count)) for queue, count in zip(found, jobs, strict=True)
            ]
        return assignments

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        """A queue for each unassigned job."""
        return self._random.choice(queues, size=len(state.unassigned))


class RandomPolicy(SimplePolicy):
    """Uniform among the queues that fit."""

    name = "random"


def shortest(queues: Ints, load: Floats, slots: Floats, jobs: int) -> Ints:
    """For each of so many jobs the queue with the fewest jobs a slot, each counted before the next.

    The jobs fill the queues up to one level, as water does; equal ones are taken in the order of the queues.
    """
    heights = load[queues] / slots[queues]
    step = 1.0 / slots[queues]
    low, high = heights.min(), heights.min() + (jobs + 1) * step.min() + (heights.max() - heights.min())
    for _ in range(60):
        level = (low + high) / 2
        if np.floor(np.maximum(0.0, level - heights) / step).sum() >= jobs:
            high = level
        else:
            low = level
    counts = np.floor(np.maximum(0.0, high - heights) / step + 1e-9).astype(np.int64)
    excess = int(counts.sum()) - jobs
    for place in np.flatnonzero(counts > 0)[::-1]:
        taken = min(max(excess, 0), int(counts[place]))
        counts[place] -= taken
        excess -= taken
    return np.repeat(queues, counts)


class LeastLoaded(SimplePolicy):
    """The queues with the fewest jobs for their cores, waiting and running.

    Without counters of its own it does not see what it has just assigned: all jobs go to the queue that the last
    reading showed as the emptiest, by chance where several were.
    """

    name = "least_loaded"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        slots = np.maximum(1.0, view.queues.cores / state.kind.cores)
        if not view.own_counters:
            heights = load[queues] / slots[queues]
            return self._random.choice(queues[heights == heights.min()], size=len(state.unassigned))
        return shortest(queues, load, slots, len(state.unassigned))


class ShortestQueue(SimplePolicy):
    """The queues with the fewest jobs, waiting and running, whatever their size."""

    name = "shortest_queue"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        return shortest(queues, load, np.ones(len(load)), len(state.unassigned))


class LeastLoadedLocal(LeastLoaded):
    """The least loaded queues, where one without the input counts as fuller by half of its slots."""

    name = "least_loaded_local"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        slots = np.maximum(1.0, view.queues.cores / state.kind.cores)
        far = ~np.isin(view.queues.site, state.task.sources) if state.kind.input_gb > 0 else np.zeros(len(slots))
        return super()._choose(view, state, queues, load + REMOTE_PENALTY * slots * far)


class ShortestDelay(SimplePolicy):
    """Join the shortest expected delay, by published core power and estimated work, job after job."""

    name = "shortest_delay"

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign each job to the queue with the shortest expected delay, counting the jobs assigned before it."""
        self._cores = view.busy_cores + view.waiting_cores
        return super().assign(view, tasks, cycle)

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        wide, size = float(state.kind.cores), np.maximum(view.queues.cores[queues], 1)
        run_s = state.believed_work_hs06s / (wide * view.queues.corepower[queues])
        ahead = self._cores[queues]
        heap = [(_delay_s(at, wide, int(size[n]), run_s[n]), n) for n, at in enumerate(ahead.tolist())]
        heapq.heapify(heap)
        chosen = []
        for _ in state.unassigned:
            place = heap[0][1]
            ahead[place] += wide
            heapq.heapreplace(heap, (_delay_s(ahead[place], wide, int(size[place]), run_s[place]), place))
            chosen.append(place)
        if view.own_counters:
            self._cores[queues] = ahead
        return queues[np.array(chosen, dtype=np.int64)]


def _delay_s(ahead: float, wide: float, size: int, run_s: float) -> float:
    """Seconds until a job would end: what is ahead of it beyond the size drains at the pace of its own like."""
    return float(run_s * (1.0 + max(0.0, ahead + wide - size) / size))


class DataFirst(LeastLoaded):
    """The queues at sites that hold the input, the least loaded of these; any that fits where there is none."""

    name = "data_first"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        local = queues[np.isin(view.queues.site[queues], state.task.sources)]
        return super()._choose(view, state, local if len(local) else queues, load)
