"""The closed loop: tasks arrive, a policy decides on a delayed view of the grid, and the grid reacts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from time import process_time
from typing import Protocol, runtime_checkable

import numpy as np

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.events import EventQueue
from broker.simulation.model.figures import Stats
from broker.simulation.model.grid import Grid
from broker.simulation.model.information import GridView, Information
from broker.simulation.model.job_states import NOT_YET, STAYS, TRANSFERRING, Job, TaskState
from broker.simulation.model.policies.base import Factory, WaitingJobs
from broker.simulation.model.records import RunColumns, Series, Tally
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.scenario_checks import check, check_task
from broker.simulation.model.tape import Tapes

#: Seconds of virtual time between two checks for jobs that have waited too long, between two checks for jobs that wait
#: where jobs fail, and between two samples of the grid.
TIMEOUT_PERIOD_S = 1800.0
FAILING_PERIOD_S = 120.0
SAMPLE_PERIOD_S = 600.0


@runtime_checkable
class Seeing(Protocol):
    """A policy that sees the grid itself: a reference that no real broker can match."""

    def see(self, grid: Grid) -> None:
        """Receive the simulated grid, once, before the first cycle."""
        ...


@runtime_checkable
class TakesBack(Protocol):
    """A policy that takes jobs back from queues where jobs fail, in a shorter period than jobs that waited too long."""

    @property
    def takes_back(self) -> bool:
        """Whether its tuning enables this."""
        ...

    def failing(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the waiting jobs to take back."""
        ...


@runtime_checkable
class LearnsFromRuns(Protocol):
    """A policy that learns from how runs end."""

    @property
    def runs_read(self) -> int | None:
        """Number of the first run that it has yet to read; None if its tuning reads none."""
        ...


class RunningFigures(Protocol):
    """Figures that are accumulated during a simulation, so that tasks and runs can be forgotten."""

    def task_ended(self, state: TaskState) -> None:
        """Add a task that is about to be forgotten."""
        ...

    def sample(self, grid: Grid) -> int:
        """Add the runs that have ended, and the bytes sent. Returns the number of the first run not added."""
        ...

    def stats(self, run: Run) -> Stats:
        """The figures of merit of a simulation that has ended."""
        ...

    def sent_bytes(self) -> Sequence[float]:
        """Cumulative bytes sent between sites at each sample of the grid."""
        ...


@dataclass(frozen=True)
class Run:
    """A finished simulation.

    Attributes:
        policy: name of the policy that steered the simulation.
        seed: seed of the draws.
        runs: every run of a job.
        tasks: tasks in the order of their arrival.
        decide_s: CPU seconds spent deciding.
        total_s: CPU seconds in all.
        figures: figures that hold what is missing from ``runs`` and ``tasks``; None if nothing is missing.
    """

    scenario: Scenario
    policy: str
    seed: int
    runs: RunColumns
    tasks: tuple[TaskState, ...]
    tally: Tally
    series: Series
    events: int
    drained_core_s: float
    decide_s: float
    total_s: float
    figures: RunningFigures | None = None


@dataclass(frozen=True)
class WaitingColumns:
    """The jobs that wait at queues, as columns."""

    jobs: list[Job]
    since_s: list[float]
    queue: list[int]
    priority: list[float]
    task: list[TaskState]


class ClosedLoop:
    """One policy on one scenario with one seed.

    Args:
        scenario: scenario to simulate.
        factory: factory of the policy.
        seed: seed of all draws.
        progress: called once a virtual hour with the virtual seconds simulated so far.
        figures: figures that tasks and runs are added to as they end, and are then forgotten; None to keep all of them.

    Raises:
        SimulationError: the scenario cannot be simulated.
    """

    def __init__(
        self,
        scenario: Scenario,
        factory: Factory,
        seed: int,
        progress: Callable[[float], None] | None = None,
        figures: RunningFigures | None = None,
    ) -> None:
        self.scenario, self.seed = check(scenario), seed
        self.events = EventQueue()
        self.grid = Grid(scenario, seed, self.events)
        self.tapes = Tapes(scenario, seed, self.events, self.grid.tally)
        self.information = Information(self.grid)
        self.policy = factory(scenario, seed)
        if isinstance(self.policy, Seeing):
            self.policy.see(self.grid)
        self._progress, self._figures = progress, figures
        self._open_parents = {task.number: set(task.parents) for task in scenario.tasks if task.parents}
        self._children: dict[int, list[Task]] = {}
        self._samples: list[tuple[float, ...]] = []
        self._shares: list[tuple[list[float], list[float]]] = []
        self.decide_s = 0.0
        self._next_nuclei_s = 0.0
        for task in scenario.tasks:
            for parent in task.parents:
                self._children.setdefault(parent, []).append(task)
        self._arrivals, self._arrival_place = arrivals(scenario), self.events.reserve()
        self._plan_arrival()
        self.grid.done = self._task_done
        self.events.at(scenario.cycle_s, self._cycle)
        self.events.at(TIMEOUT_PERIOD_S, self._timeouts)
        if isinstance(self.policy, TakesBack) and self.policy.takes_back:
            self.events.at(FAILING_PERIOD_S, self._take_back, self.policy.failing)
        self.events.at(0.0, self._sample)
        self.events.at(3600.0, self._hourly)

    def run(self) -> Run:
        """Simulate to the end of the scenario."""
        started = process_time()
        self.events.run(self.scenario.end_s)
        return self.result(process_time() - started)

    def result(self, total_s: float) -> Run:
        """The result so far; jobs that still run are logged as unfinished. With figures, the loop cannot continue."""
        for jobs in self.grid.running:
            for job in jobs:
                if not np.isnan(job.started_s):
                    self.grid.log_run(job, "unfinished")
        if self._figures is not None:
            for state in list(self.grid.tasks.values()):
                self._forget(self._figures, state)
            self.grid.log.drop(self._figures.sample(self.grid))
        return Run(
            scenario=self.scenario,
            policy=self.policy.name,
            seed=self.seed,
            runs=self.grid.log.columns(),
            tasks=tuple(self.grid.tasks.values()),
            tally=self.grid.tally,
            series=self._series(),
            events=self.events.events,
            drained_core_s=self.grid.drained_core_s,
            decide_s=self.decide_s,
            total_s=total_s,
            figures=self._figures,
        )

    def _plan_arrival(self) -> None:
        """Schedule the arrival of the next task without parents."""
        task = next(self._arrivals, None)
        if task is not None:
            self._arrival_place += 1
            self.events.in_place(task.arrival_s, self._arrival_place, self._next_arrives, task)

    def _next_arrives(self, task: Task) -> None:
        self._plan_arrival()
        self._comes(task)

    def _comes(self, task: Task) -> None:
        """Let a task arrive once its input is on disk."""
        if self.tapes.holds(task):
            self.tapes.read(task, partial(self._arrive, task))
        else:
            self._arrive(task)

    def _arrive(self, task: Task) -> None:
        """Add a task to the grid.

        Production gets a nucleus in the next cycle; output of analysis and of initially running jobs stays in place.
        """
        stays = self.scenario.kinds[task.kind].analysis or task.running_at >= 0
        self.grid.arrive(task, STAYS if stays else NOT_YET)

    def _task_done(self, state: TaskState) -> None:
        for child in self._children.get(state.task.number, ()):
            parents = self._open_parents[child.number]
            parents.discard(state.task.number)
            if not parents:
                self.events.at(max(self.events.now, child.arrival_s), self._comes, child)
        if self._figures is not None:
            self._forget(self._figures, state)

    def _forget(self, figures: RunningFigures, state: TaskState) -> None:
        figures.task_ended(state)
        self.grid.free(state)

    def _cycle(self) -> None:
        """Run one cycle of the broker; a cycle without due work costs nothing."""
        now, grid = self.events.now, self.grid
        self.events.after(self.scenario.cycle_s, self._cycle)
        grid.tally.cycles += 1
        due = [state for state in grid.assignable.values() if state.retry_s <= now]
        if not due:
            grid.tally.empty_cycles += 1
            return
        due.sort(key=lambda state: (-state.task.priority, state.task.number))
        grid.balance_shares()
        started = process_time()
        view = self.information.view()
        due = self._with_nuclei(view, due)
        assignments = self.policy.assign(view, due, grid.tally.cycles) if due else []
        self.decide_s += process_time() - started
        grid.tally.decided_chunks += len(due)
        for assignment in assignments:
            state = grid.tasks[assignment.task]
            queue = self.scenario.queues[assignment.queue]
            if not queue.takes(state.task.vo):
                message = f"jobs of VO {state.task.vo} at queue {queue.name}, which does not take them"
                raise SimulationError(message, f"policy {self.policy.name}", "correct the policy")
            if assignment.queue in state.left:
                state.returns += assignment.jobs
                grid.tally.returned += assignment.jobs
            self.information.note(state.task, assignment.queue, assignment.jobs, state.kind.cores)
            grid.assign(state, assignment.queue, assignment.jobs)
        for state in due:
            state.retry_s = now + self.policy.retry_s(state)

    def _with_nuclei(self, view: GridView, due: list[TaskState]) -> list[TaskState]:
        """The tasks that have a nucleus or need none, after running the task brokerage if its cycle is due."""
        homeless = [state for state in due if state.nucleus == NOT_YET]
        if homeless and self.events.now < self._next_nuclei_s:
            return [state for state in due if state.nucleus != NOT_YET]
        if not homeless:
            return due
        self._next_nuclei_s = self.events.now + self.scenario.task_cycle_s
        chosen = self.policy.choose_nuclei(view, homeless, self.grid.tally.cycles)
        for state, nucleus in zip(homeless, chosen, strict=True):
            state.nucleus = nucleus
            if nucleus == NOT_YET:
                state.retry_s = self.events.now + self.policy.retry_nucleus_s()
        return [state for state in due if state.nucleus != NOT_YET]

    def _timeouts(self) -> None:
        self.events.after(TIMEOUT_PERIOD_S, self._timeouts)
        waiting = self._waiting()
        if waiting.jobs:
            for position in self._decided(self.policy.overdue, waiting):
                self.grid.tally.timed_out += 1
                self.grid.take_back(waiting.jobs[position])

    def _take_back(self, failing: Callable[[GridView, WaitingJobs], Sequence[int]]) -> None:
        self.events.after(FAILING_PERIOD_S, self._take_back, failing)
        waiting = self._waiting()
        if waiting.jobs:
            for position in self._decided(failing, waiting):
                self.grid.take_back(waiting.jobs[position])

    def _decided(self, decide: Callable[[GridView, WaitingJobs], Sequence[int]], waiting: WaitingJobs) -> Sequence[int]:
        """The waiting jobs to take back; the time of the decision counts as spent on deciding."""
        started = process_time()
        positions = decide(self.information.view(), waiting)
        self.decide_s += process_time() - started
        return positions

    def _waiting(self) -> WaitingColumns:
        jobs = [job for waiting in self.grid.waiting_jobs for job in waiting]
        return WaitingColumns(
            jobs,
            [job.assigned_s for job in jobs],
            [job.queue for job in jobs],
            [job.priority for job in jobs],
            [job.task for job in jobs],
        )

    def _hourly(self) -> None:
        self.events.after(3600.0, self._hourly)
        self.grid.storages.delete_old(self.events.now)
        if self._progress is not None:
            self._progress(self.events.now)

    def _forget_runs(self, figures: RunningFigures) -> None:
        """Drop the runs that the figures hold, except those that the policy has yet to read."""
        first_open = figures.sample(self.grid)
        read = self.policy.runs_read if isinstance(self.policy, LearnsFromRuns) else None
        self.grid.log.drop(first_open if read is None else min(first_open, read))

    def _sample(self) -> None:
        self.events.after(SAMPLE_PERIOD_S, self._sample)
        if self._figures is not None:
            self._forget_runs(self._figures)
        grid = self.grid
        up = sum(
            queue.cores * queue.corepower for queue, is_up in zip(self.scenario.queues, grid.up, strict=True) if is_up
        )
        waiting = sum(slots.waiting for slots in grid.slots) + sum(len(s.unassigned) for s in grid.assignable.values())
        demand = grid.counts[:, :, :TRANSFERRING].sum(axis=(0, 2))
        for state in grid.assignable.values():
            demand[state.task.share] += len(state.unassigned)
        self._samples.append((self.events.now, float(grid.share_hs06.sum()), up, waiting, grid.transfers.waiting))
        self._shares.append((grid.share_hs06.tolist(), demand.tolist()))

    def _series(self) -> Series:
        columns = np.array(self._samples).T.reshape(5, -1)
        return Series(
            time_s=columns[0],
            busy_hs06=columns[1],
            up_hs06=columns[2],
            waiting_jobs=columns[3],
            transfers_waiting=columns[4],
            share_hs06=np.array([got for got, _ in self._shares]),
            share_demand=np.array([demand for _, demand in self._shares]),
        )


def arrivals(scenario: Scenario) -> Iterator[Task]:
    """The tasks without parents, in the order of arrival; ties keep the order of the scenario."""
    by_arrival = attrgetter("arrival_s")
    planned = iter(sorted((task for task in scenario.tasks if not task.parents), key=by_arrival))
    if scenario.coming is None:
        return planned
    return heapq.merge(planned, (check_task(scenario, task) for task in scenario.coming), key=by_arrival)
