"""The work of a grid rolled out ahead: the closed loop from an instant on, and when what waits started in it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import Factory
from broker.simulation.model.work_ahead import Beginning, WorkAhead, begin

#: Virtual seconds after which all that was there has arrived.
_ARRIVED_S = 0.001
#: What comes later in a roll-out tells nothing of a queue or a kind of tasks as it is now.
NEXT_S = 7200.0
#: Virtual seconds between two looks at the budget.
_STEP_S = 600.0


@dataclass(frozen=True)
class RolledOut:
    """What roll-outs say: the middle over the seeds, in seconds; what did not start by the end counts as the end.

    Where the budget ended the first of them, it says what had started, and nothing of the rest.

    Attributes:
        lines: how long jobs wait that come next to a queue, by queue and share.
        tasks: when the next job of a task starts, by its number.
        kinds: how long a task waits that comes next, by share and resource type.
        seeds: roll-outs that were done.
        hours: of virtual time of each; fewer than asked for where the budget did not last.
    """

    lines: Mapping[tuple[str, str], float]
    tasks: Mapping[int, float]
    kinds: Mapping[tuple[str, str], float]
    seeds: int
    hours: float


@dataclass(frozen=True)
class Rolling:
    """How work is rolled out.

    Attributes:
        hours: of virtual time.
        seeds: at most.
        cycle_s: of virtual time between two cycles of the job brokerages.
        budget_s: of CPU for all seeds, by ``spent_s`` of :func:`roll_out`.
        seed: the first.
    """

    hours: float = 8.0
    seeds: int = 3
    cycle_s: float = 300.0
    budget_s: float = 120.0
    seed: int = 1


def roll_out(ahead: WorkAhead, factory: Factory, how: Rolling, spent_s: Callable[[], float]) -> RolledOut:
    """Roll the work out for as many seeds as the budget lets; of the first it is told what was reached.

    Args:
        ahead: what is there.
        factory: makes the policy: the brokerages of a profile with a tuning.
        how: for how long, how often.
        spent_s: CPU seconds that were spent since the beginning.

    Raises:
        SimulationError: the grid cannot be simulated.
    """
    found: list[_Waits] = []
    end_s = done_s = how.hours * 3600.0
    last_s = 0.0
    for number in range(how.seeds):
        began_s = spent_s()
        if began_s + last_s >= how.budget_s:
            break
        one, so_far_s = _roll(ahead, factory, how, how.seed + number, spent_s)
        last_s = spent_s() - began_s
        if so_far_s < end_s and found:
            break
        found.append(one)
        done_s = so_far_s
        if so_far_s < end_s:
            break
    return _middles(found, done_s / 3600.0 if found else 0.0)


@dataclass
class _Waits:
    """Waits of one roll-out."""

    lines: dict[tuple[str, str], list[float]]
    tasks: dict[int, list[float]]
    kinds: dict[tuple[str, str], list[float]]


def _roll(
    ahead: WorkAhead, factory: Factory, how: Rolling, seed: int, spent_s: Callable[[], float]
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
    return _noted(loop, beginning, end_s if now >= end_s else np.nan), now


def _noted(loop: ClosedLoop, beginning: Beginning, end_s: float) -> _Waits:
    """The waits; ``end_s`` stands for starts that did not come, NaN where the end was not reached."""
    scenario, grid = loop.scenario, loop.grid
    found = _Waits(defaultdict(list), defaultdict(list), defaultdict(list))
    firsts: dict[int, float] = {}
    for number, state in grid.tasks.items():
        first = state.first_start_s
        started = float(np.nanmin(first)) if (~np.isnan(first)).any() else end_s
        group, shape = beginning.task_of.get(number), beginning.shape_of.get(number)
        if group is not None:
            firsts[group.task] = float(np.fmin(firsts.get(group.task, np.nan), started))
        elif shape is not None and state.task.arrival_s <= NEXT_S:
            found.kinds[shape.share, shape.resource_type].append(started - state.task.arrival_s)
    for task, started in firsts.items():
        found.tasks[task].append(started)
    queues, shares = [queue.name for queue in scenario.queues], [name for name, _ in scenario.shares]
    came: dict[tuple[int, int], dict[float, float]] = defaultdict(dict)
    for assigned, start, queue, share in _starts(loop, end_s):
        if _ARRIVED_S < assigned <= NEXT_S:
            at = came[queue, share]
            at[assigned] = float(np.fmin(at.get(assigned, np.nan), start - assigned))
    for (queue, share), waits in came.items():
        found.lines[queues[queue], shares[share]] = list(waits.values())
    return found


def _starts(loop: ClosedLoop, end_s: float) -> Sequence[tuple[float, float, int, int]]:
    """Assignment, start, queue and share of each job that ran, runs, or waits still: that one starts at the end."""
    columns, grid = loop.grid.log.columns(), loop.grid
    ended = zip(
        columns.assigned_s.tolist(), columns.start_s.tolist(), columns.queue.tolist(), columns.share.tolist(),
        strict=True,
    )  # fmt: skip
    there = [
        (job.assigned_s, end_s if np.isnan(job.started_s) else job.started_s, job.queue, job.share)
        for jobs in (*grid.running, *grid.waiting_jobs)
        for job in jobs
    ]
    return [*ended, *there]


def _middles(found: Sequence[_Waits], hours: float) -> RolledOut:
    def middle(name: str) -> dict[object, float]:
        whole: dict[object, list[float]] = defaultdict(list)
        for one in found:
            for key, values in getattr(one, name).items():
                whole[key] += values
        known = {key: np.array(values)[~np.isnan(values)] for key, values in whole.items()}
        return {key: float(np.median(values)) for key, values in known.items() if len(values)}

    return RolledOut(middle("lines"), middle("tasks"), middle("kinds"), len(found), hours)  # type: ignore[arg-type]
