"""The achievable reference: a list schedule that knows every job, the true speeds, failures and outages.

It is no bound, as it does not know later arrivals and never revises a placement. But its results are achievable on this
grid, in this loop, with the same start-up, stage-in and outages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.simulation.model.grid import Grid
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.policies.base import Assignment, WaitingJobs, nucleus_by_space, taking
from broker.simulation.model.scenario import Scenario, fits
from broker.simulation.model.transfers import MOST_BYTES_S

#: Mean of the drawn start-up times plus the seconds before the first byte of a stage-in.
START_S = 145.0


class Clairvoyant:
    """Assigns each job, by priority, to the queue with room where it ends first; jobs without room are held back.

    Args:
        scenario: scenario of the simulation, including the parts that no other policy may see.
        seed: seed of the draws of nuclei.
    """

    name = "clairvoyant"

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        queues = scenario.queues
        self._cores = np.array([max(queue.cores, 1) for queue in queues], dtype=np.float64)
        self._speed = np.array([queue.corepower * queue.hidden_speed for queue in queues])
        self._site = np.array([queue.site for queue in queues], dtype=np.int64)
        self._fits = {
            name: np.array([fits(queue, kind) for queue in queues], dtype=np.bool_)
            for name, kind in scenario.kinds.items()
        }
        self._takes = taking(scenario)
        self._grid: Grid | None = None

    def see(self, grid: Grid) -> None:
        """Receive the grid itself, in its current state and not as last read."""
        self._grid = grid

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """Draw nuclei by free space."""
        return [nucleus_by_space(self._scenario, self._seed, view, state.task) for state in tasks]

    def retry_s(self, task: TaskState) -> float:
        """Return 0: each cycle decides again."""
        return 0.0

    def retry_nucleus_s(self) -> float:
        """Return 0: each cycle of the task brokerage decides again."""
        return 0.0

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Return none: waiting jobs are about to start."""
        return ()

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign jobs to queues that have room to start them now; all others wait for a later cycle."""
        if self._grid is None:
            return []
        grid, now = self._grid, view.now_s
        room = np.array([self._room(grid, queue, now) for queue in range(len(self._cores))])
        room[~(grid.online & grid.up)] = 0.0
        return [one for state in tasks for one in self._task(state, grid, now, room)]

    def _task(self, state: TaskState, grid: Grid, now: float, room: Floats) -> list[Assignment]:
        """Assign the jobs of one task from the top of its stack, until no queue has room for the next."""
        fitting, wide = self._fits[state.kind.name] & self._takes[state.task.vo], float(state.kind.cores)
        factors = np.array([grid.factors_of(queue, state.kind.name)[0] for queue in range(len(self._cores))])
        stage_s = START_S + self._stage_in_s(state)
        assigned = []
        for index in reversed(state.unassigned):
            efficiency = np.clip(float(state.draws.efficiency[index]) * factors, 0.01, 1.0)
            run_s = stage_s + float(state.draws.work_hs06s[index]) / (wide * self._speed * efficiency)
            wrong = self._goes_wrong(state, index, now + run_s, now, fitting)
            ends = np.where(fitting & (room >= wide) & ~wrong, run_s, np.inf)
            best = int(ends.argmin())
            if not np.isfinite(ends[best]):
                break
            room[best] -= wide
            assigned.append(Assignment(state.task.number, best, 1))
        return assigned

    def _room(self, grid: Grid, queue: int, now: float) -> float:
        """Cores that are free or will be before the next cycle, less those that waiting jobs need."""
        slots = grid.slots[queue]
        next_s = self._scenario.cycle_s
        ending = sum(
            job.cores
            for job in grid.running[queue]
            if job.execution_s > 0 and job.started_s + START_S + job.execution_s < now + next_s
        )
        return float(slots.nodes.total_cores - slots.busy_cores + ending - slots.waiting_cores)

    def _stage_in_s(self, state: TaskState) -> Floats:
        """(U,) seconds to read the input at the mean rate of its kind, over the widest link if it is not local."""
        size = state.kind.input_gb * 1e9
        if size <= 0 or self._grid is None:
            return np.zeros(len(self._cores))
        rate = min(float(state.draws.stage_in_bytes_s.mean()), MOST_BYTES_S)
        transfers = self._grid.transfers
        rates = [
            min(rate, transfers.bandwidth(transfers.source_for(int(site), state.task.sources), int(site)))
            if int(site) not in state.task.sources and state.task.sources else rate
            for site in self._site
        ]  # fmt: skip
        return size / np.array(rates)

    def _goes_wrong(self, state: TaskState, index: int, ends_s: Floats, now: float, fitting: Bools) -> Bools:
        """(U,) whether this attempt would fail or be lost in an outage; all false if so at every queue that fits."""
        drawn = float(state.draws.fails[index, int(state.attempts[index])])
        name, anywhere = state.kind.name, state.kind.failure_rate + state.task.failure_rate
        fails = np.array(
            [
                drawn < queue.failure_rate + queue.failure_of_kind.get(name, 0.0) + anywhere
                for queue in self._scenario.queues
            ]
        )
        lost = np.zeros(len(fails), dtype=np.bool_)
        for outage in self._scenario.outages:
            for queue in outage.queues:
                lost[queue] |= now < outage.end_s and ends_s[queue] > outage.start_s
        wrong = fails | lost
        return wrong if not wrong[fitting].all() else np.zeros(len(wrong), dtype=np.bool_)
