"""What a site knows of the work of a simulated grid, for roll-outs: nothing hidden, and nothing of the future."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.job_kinds import REFERENCE_HS06
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.records import OUTCOMES
from broker.simulation.model.work_ahead import RunningGroup, Shape, WaitingGroup, WorkAhead

#: Future arrivals are drawn from the tasks that came within this time.
WINDOW_S = 21_600.0
#: Run times are estimated from the runs that ended within this time.
RUNS_OF_S = 2 * 86_400.0
_USUAL_WALL_S, _USUAL_SPREAD = 3600.0, 1.0
_FEW = 5


def ahead_of(loop: ClosedLoop, now: float) -> WorkAhead:
    """Return the work at ``now``."""
    grid, scenario = loop.grid, loop.scenario
    walls, failed = _record(loop, now)
    shapes: dict[str, Shape] = {}
    for state in grid.tasks.values():
        name = _shape_name(loop, state)
        if name not in shapes:
            shapes[name] = _shape(loop, state, name, walls.get(name), failed.get(name, 0.0))
    window_s = min(WINDOW_S, now)
    return WorkAhead(
        grid=dataclasses.replace(scenario, tasks=(), outages=()),
        shapes=shapes,
        online=tuple(grid.online.tolist()),
        running=tuple(_running(loop, now)),
        waiting=tuple(_waiting(loop, now)),
        came=tuple(
            WaitingGroup(state.task.number, -1, _shape_name(loop, state), state.task.jobs, state.task.priority,
                         user=state.task.user, sources=state.task.sources)
            for state in grid.tasks.values()
            if now - window_s <= state.assignable_s <= now
        ),
        window_s=window_s,
    )  # fmt: skip


def _shape_name(loop: ClosedLoop, state: TaskState) -> str:
    return f"{loop.scenario.shares[state.task.share][0]} {state.kind.name}"


def _shape(loop: ClosedLoop, state: TaskState, name: str, walls: Floats | None, failed: float) -> Shape:
    kind = state.kind
    wall, spread = _USUAL_WALL_S, _USUAL_SPREAD
    if walls is not None and len(walls) >= _FEW:
        logs = np.log(walls)
        wall, spread = float(np.exp(np.median(logs))), float(np.std(logs))
    share = loop.scenario.shares[state.task.share][0]
    return Shape(name, share, "SCORE" if kind.cores == 1 else "MCORE", kind.cores, kind.memory_gb_core, kind.analysis,
                 kind.processingtype, kind.input_gb, wall, spread, failed)  # fmt: skip


def _record(loop: ClosedLoop, now: float) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return by shape the wall times of finished runs on the reference machine, and the failed fraction of runs."""
    columns, queues, tasks = loop.grid.log.columns(), loop.scenario.queues, loop.grid.tasks
    finished: dict[str, list[float]] = defaultdict(list)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    finished_code, failed_code = OUTCOMES.index("finished"), OUTCOMES.index("failed")
    for row in np.flatnonzero(columns.end_s >= now - RUNS_OF_S).tolist():
        name, outcome = _shape_name(loop, tasks[int(columns.task[row])]), int(columns.outcome[row])
        if outcome not in (finished_code, failed_code):
            continue
        counts[name][int(outcome == failed_code)] += 1
        if outcome == finished_code:
            wall = float(columns.end_s[row] - columns.start_s[row])
            finished[name].append(max(1.0, wall) * queues[int(columns.queue[row])].corepower / REFERENCE_HS06)
    return (
        {name: np.array(values) for name, values in finished.items()},
        {name: failures / (successes + failures) for name, (successes, failures) in counts.items()},
    )


def _running(loop: ClosedLoop, now: float) -> Iterator[RunningGroup]:
    for queue, jobs in enumerate(loop.grid.running):
        groups: dict[tuple[str, int], list[float]] = defaultdict(list)
        for job in jobs:
            age = 0.0 if np.isnan(job.started_s) else now - job.started_s
            groups[_shape_name(loop, job.task), job.task.task.user].append(age)
        for (name, user), ages in groups.items():
            yield RunningGroup(queue, name, tuple(ages), user)


def _waiting(loop: ClosedLoop, now: float) -> Iterator[WaitingGroup]:
    for queue, jobs in enumerate(loop.grid.waiting_jobs):
        groups: dict[tuple[int, float], int] = defaultdict(int)
        for job in jobs:
            groups[job.task.task.number, job.assigned_s] += 1
        for (number, since), count in groups.items():
            task = loop.grid.tasks[number]
            yield _group(loop, task, queue, count, now - since)
    for state in loop.grid.assignable.values():
        if state.unassigned:
            yield _group(loop, state, -1, len(state.unassigned), 0.0)


def _group(loop: ClosedLoop, state: TaskState, queue: int, jobs: int, waited_s: float) -> WaitingGroup:
    task = state.task
    name = _shape_name(loop, state)
    return WaitingGroup(task.number, queue, name, jobs, task.priority, waited_s, task.user, task.sources)
