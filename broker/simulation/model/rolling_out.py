"""Roll out the work of a grid: run the closed loop from an instant on, and measure when waiting jobs start."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import Factory
from broker.simulation.model.work_ahead import Beginning, WorkAhead, begin

#: Virtual seconds after which all initial work has arrived.
_ARRIVED_S = 0.001
#: Limit of arrivals that count: later ones say nothing about the current state of a queue or a kind of tasks.
NEXT_S = 7200.0
#: Virtual seconds between two checks of the budget.
_STEP_S = 600.0


@dataclass(frozen=True)
class RolledOut:
    """The result of roll-outs: medians over seeds, in seconds; jobs that did not start count as starting at the end.

    If the budget ended the first roll-out, only jobs that had started count.

    Attributes:
        lines: wait of the jobs that come next to a queue, by queue and share.
        tasks: start of the next job of a task, by its number.
        kinds: wait of the task that comes next, by share and resource type.
        seeds: completed roll-outs.
        hours: virtual time of each; less than requested if the budget did not suffice.
    """

    lines: Mapping[tuple[str, str], float]
    tasks: Mapping[int, float]
    kinds: Mapping[tuple[str, str], float]
    seeds: int
    hours: float


@dataclass(frozen=True)
class RollOutSettings:
    """Settings of roll-outs.

    Attributes:
        hours: hours of virtual time.
        seeds: maximum number of seeds.
        cycle_s: virtual time between two cycles of the job brokerages.
        budget_s: CPU seconds for all seeds, by ``spent_s`` of :func:`roll_out`.
        seed: first seed.
    """

    hours: float = 8.0
    seeds: int = 3
    cycle_s: float = 300.0
    budget_s: float = 120.0
    seed: int = 1


def roll_out(ahead: WorkAhead, factory: Factory, how: RollOutSettings, spent_s: Callable[[], float]) -> RolledOut:
    """Roll the work out for as many seeds as the budget allows; the first one counts even if it is incomplete.

    Args:
        ahead: the current work.
        factory: factory of the policy: the brokerages of a profile with a tuning.
        how: settings of the roll-outs.
        spent_s: returns the CPU seconds spent since the beginning.

    Raises:
        SimulationError: the grid cannot be simulated.
    """
    waits: list[_Waits] = []
    end_s = done_s = how.hours * 3600.0
    last_s = 0.0
    for number in range(how.seeds):
        began_s = spent_s()
        if began_s + last_s >= how.budget_s:
            break
        waits_of_seed, so_far_s = _roll(ahead, factory, how, how.seed + number, spent_s)
        last_s = spent_s() - began_s
        if so_far_s < end_s and waits:
            break
        waits.append(waits_of_seed)
        done_s = so_far_s
        if so_far_s < end_s:
            break
    return _medians(waits, done_s / 3600.0 if waits else 0.0)


@dataclass
class _Waits:
    """Waits of one roll-out."""

    lines: dict[tuple[str, str], list[float]]
    tasks: dict[int, list[float]]
    kinds: dict[tuple[str, str], list[float]]


def _roll(
    ahead: WorkAhead, factory: Factory, how: RollOutSettings, seed: int, spent_s: Callable[[], float]
) -> tuple[_Waits, float]:
    beginning = begin(ahead, how.hours, seed)
    scenario = dataclasses.replace(beginning.scenario, cycle_s=how.cycle_s, task_cycle_s=how.cycle_s)
    loop = ClosedLoop(scenario, factory, seed)
    loop.events.run(_ARRIVED_S)
    for jobs in loop.grid.waiting_jobs:
        for job in jobs:
            group = beginning.task_of.get(job.task.task.number)
            job.assigned_s = 0.0 if group is None else -group.waited_s
    end_s, now = scenario.end_s, 0.0
    while now < end_s and spent_s() < how.budget_s:
        now = min(now + _STEP_S, end_s)
        loop.events.run(now)
    return _measured_waits(loop, beginning, end_s if now >= end_s else np.nan), now


def _measured_waits(loop: ClosedLoop, beginning: Beginning, end_s: float) -> _Waits:
    """The waits of a roll-out; ``end_s`` replaces missing starts, NaN if the end was not reached."""
    scenario, grid = loop.scenario, loop.grid
    all_waits = _Waits(defaultdict(list), defaultdict(list), defaultdict(list))
    firsts: dict[int, float] = {}
    for number, state in grid.tasks.items():
        first = state.first_start_s
        started = float(np.nanmin(first)) if (~np.isnan(first)).any() else end_s
        group, shape = beginning.task_of.get(number), beginning.shape_of.get(number)
        if group is not None:
            firsts[group.task] = float(np.fmin(firsts.get(group.task, np.nan), started))
        elif shape is not None and state.task.arrival_s <= NEXT_S:
            all_waits.kinds[shape.share, shape.resource_type].append(started - state.task.arrival_s)
    for task, started in firsts.items():
        all_waits.tasks[task].append(started)
    queues, shares = [queue.name for queue in scenario.queues], [name for name, _ in scenario.shares]
    came: dict[tuple[int, int], dict[float, float]] = defaultdict(dict)
    for assigned, start, queue, share in _starts(loop, end_s):
        if _ARRIVED_S < assigned <= NEXT_S:
            at = came[queue, share]
            at[assigned] = float(np.fmin(at.get(assigned, np.nan), start - assigned))
    for (queue, share), waits in came.items():
        all_waits.lines[queues[queue], shares[share]] = list(waits.values())
    return all_waits


def _starts(loop: ClosedLoop, end_s: float) -> Sequence[tuple[float, float, int, int]]:
    """Assignment, start, queue and share of each job that ran, runs or still waits; waiting jobs start at ``end_s``."""
    columns, grid = loop.grid.log.columns(), loop.grid
    ended = zip(
        columns.assigned_s.tolist(), columns.start_s.tolist(), columns.queue.tolist(), columns.share.tolist(),
        strict=True,
    )  # fmt: skip
    current = [
        (job.assigned_s, end_s if np.isnan(job.started_s) else job.started_s, job.queue, job.share)
        for jobs in (*grid.running, *grid.waiting_jobs)
        for job in jobs
    ]
    return [*ended, *current]


def _medians(waits: Sequence[_Waits], hours: float) -> RolledOut:
    def medians(name: str) -> dict[object, float]:
        merged: dict[object, list[float]] = defaultdict(list)
        for one in waits:
            for key, values in getattr(one, name).items():
                merged[key] += values
        known = {key: np.array(values)[~np.isnan(values)] for key, values in merged.items()}
        return {key: float(np.median(values)) for key, values in known.items() if len(values)}

    return RolledOut(medians("lines"), medians("tasks"), medians("kinds"), len(waits), hours)  # type: ignore[arg-type]
