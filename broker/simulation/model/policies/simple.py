"""Simple policies: random, shortest queue, least loaded, data first. All use only queues that fit."""

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

#: Time after which a task that found no queue is brokered again.
RETRY_S = 600.0
#: Part of its slots that is added to the load of a queue without the input.
REMOTE_PENALTY = 0.5


class SimplePolicy:
    """Assigns every job of every task at once.

    Args:
        scenario: scenario of the simulation.
        seed: seed of the draws.
    """

    name = ""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        self._fitting = FittingQueues(scenario)
        self._random = stream(seed, self.name, "policy")

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """Draw nuclei by free space."""
        return [nucleus_by_space(self._scenario, self._seed, view, state.task) for state in tasks]

    def retry_s(self, task: TaskState) -> float:
        """Ten minutes for a task that found no queue, else 0."""
        return RETRY_S if task.unassigned else 0.0

    def retry_nucleus_s(self) -> float:
        """Seconds that a task without a nucleus waits."""
        return RETRY_AFTER.total_seconds()

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the jobs that have waited longer than the scenario's timeout."""
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
            used_queues, jobs = np.unique(chosen, return_counts=True)
            if view.own_counters:
                np.add.at(load, used_queues, jobs)
            assignments += [
                Assignment(state.task.number, int(queue), int(count))
                for queue, count in zip(used_queues, jobs, strict=True)
            ]
        return assignments

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        """A queue for each unassigned job."""
        return self._random.choice(queues, size=len(state.unassigned))


class RandomPolicy(SimplePolicy):
    """Chooses uniformly among the queues that fit."""

    name = "random"


def shortest(queues: Ints, load: Floats, slots: Floats, jobs: int) -> Ints:
    """The queue with the fewest jobs a slot for each of these jobs, counting each job before the next.

    The jobs fill the queues up to one level (water filling); ties are resolved in the order of the queues.
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
    """Chooses the queues with the fewest waiting and running jobs for their cores.

    Without own counters it does not see its latest assignments: all jobs go to the emptiest queue of the last reading,
    with ties resolved at random.
    """

    name = "least_loaded"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        slots = np.maximum(1.0, view.queues.cores / state.kind.cores)
        if not view.own_counters:
            heights = load[queues] / slots[queues]
            return self._random.choice(queues[heights == heights.min()], size=len(state.unassigned))
        return shortest(queues, load, slots, len(state.unassigned))


class ShortestQueue(SimplePolicy):
    """Chooses the queues with the fewest waiting and running jobs, whatever their size."""

    name = "shortest_queue"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        return shortest(queues, load, np.ones(len(load)), len(state.unassigned))


class LeastLoadedLocal(LeastLoaded):
    """Chooses the least loaded queues, with half of its slots added to the load of a queue without the input."""

    name = "least_loaded_local"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        slots = np.maximum(1.0, view.queues.cores / state.kind.cores)
        far = ~np.isin(view.queues.site, state.task.sources) if state.kind.input_gb > 0 else np.zeros(len(slots))
        return super()._choose(view, state, queues, load + REMOTE_PENALTY * slots * far)


class ShortestDelay(SimplePolicy):
    """Chooses the shortest expected delay for each job in turn, by published core power and estimated work."""

    name = "shortest_delay"

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign each job to the queue with the shortest expected delay, counting the jobs assigned before it."""
        self._cores = view.busy_cores + view.waiting_cores
        return super().assign(view, tasks, cycle)

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        wide, size = float(state.kind.cores), np.maximum(view.queues.cores[queues], 1)
        run_s = state.believed_work_hs06s / (wide * view.queues.corepower[queues])
        ahead = self._cores[queues]
        heap = [(_delay_s(cores, wide, int(size[n]), run_s[n]), n) for n, cores in enumerate(ahead.tolist())]
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
    """Seconds until a job would end, if the work ahead of it beyond the size drains at the pace of similar jobs."""
    return float(run_s * (1.0 + max(0.0, ahead + wide - size) / size))


class DataFirst(LeastLoaded):
    """Chooses the least loaded queues at sites that hold the input, or of all that fit if there is none."""

    name = "data_first"

    def _choose(self, view: GridView, state: TaskState, queues: Ints, load: Floats) -> Ints:
        local = queues[np.isin(view.queues.site[queues], state.task.sources)]
        return super()._choose(view, state, local if len(local) else queues, load)
