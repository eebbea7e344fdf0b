"""A scenario that begins with the work of a grid at one instant: running, waiting and expected jobs. Pure.

Running jobs continue for a drawn rest of their run. Jobs that wait at a queue stay there, and jobs that wait for a
queue are brokered in the first cycle. Expected tasks are drawn from those that arrived recently. Nothing else is known
of the future, so outages last, and no queue is faster than it publishes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.job_kinds import REFERENCE_HS06, Fixed, JobKind, Lognormal, normal_quantile
from broker.simulation.model.scenario import Outage, Scenario, Task, fits
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.streams import stream

#: Maximum number of groups into which running jobs of a shape at a queue are divided by the rest of their run.
MOST_GROUPS = 16
#: Rate of a stage-in, MB/s, high enough to take no time: its time is already part of the run.
_AT_ONCE_MBPS = 1e6
_RUNS = " that run"


@dataclass(frozen=True)
class Shape:
    """Jobs with the same requirements.

    Attributes:
        name: name of the shape.
        share: name of the leaf share.
        resource_type: resource type of its tasks.
        cores: cores of a job.
        memory_gb_core: memory that a job holds, GB a core.
        input_gb: input of a job.
        wall_s: median of its runs on a core of ``REFERENCE_HS06``.
        spread: standard deviation of ln of its runs.
        failure_rate: part of the runs that fail.
    """

    name: str
    share: str
    resource_type: str
    cores: int
    memory_gb_core: float
    analysis: bool
    processingtype: str
    input_gb: float
    wall_s: float
    spread: float
    failure_rate: float = 0.0


@dataclass(frozen=True)
class RunningGroup:
    """Jobs of a shape that run at a queue (its position), with the seconds that each has run."""

    queue: int
    shape: str
    ages_s: tuple[float, ...]
    user: int = 0


@dataclass(frozen=True)
class WaitingGroup:
    """Waiting jobs of a task.

    Attributes:
        task: number of the task.
        queue: queue at which they wait; -1 for jobs that wait for a queue.
        waited_s: seconds that they have waited there.
        sources: sites that hold the input.
    """

    task: int
    queue: int
    shape: str
    jobs: int
    priority: float
    waited_s: float = 0.0
    user: int = 0
    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class WorkAhead:
    """A grid and its work at one instant.

    Attributes:
        grid: grid with its queues, shares, sites and links; its tasks and outages are ignored.
        shapes: shapes by name.
        online: whether each queue takes jobs.
        came: tasks that arrived within the last ``window_s``; their number and ``queue`` are ignored.
    """

    grid: Scenario
    shapes: Mapping[str, Shape]
    online: tuple[bool, ...]
    running: tuple[RunningGroup, ...]
    waiting: tuple[WaitingGroup, ...]
    came: tuple[WaitingGroup, ...]
    window_s: float


@dataclass(frozen=True)
class Beginning:
    """A scenario that begins with the work at an instant.

    Attributes:
        task_of: waiting group that a task of the scenario represents, by number.
        shape_of: shape of each expected task, by number.
    """

    scenario: Scenario
    task_of: Mapping[int, WaitingGroup]
    shape_of: Mapping[int, Shape]


def begin(ahead: WorkAhead, hours: float, seed: int) -> Beginning:
    """The scenario of a roll-out over a number of hours; jobs that fit no queue are left out.

    Raises:
        SimulationError: the grid cannot be simulated.
    """
    shapes = {name: shape for name, shape in ahead.shapes.items() if _fits_any(ahead.grid, shape)}
    shares = {name: place for place, (name, _) in enumerate(ahead.grid.shares)}
    shapes = {name: shape for name, shape in shapes.items() if shape.share in shares}
    tasks: list[Task] = []
    tasks += _running(ahead, shapes, shares, seed)
    waiting = sorted(
        (group for group in ahead.waiting if group.shape in shapes),
        key=lambda group: (-group.priority, -group.waited_s),
    )
    first = len(tasks) + 1
    task_of = {first + place: group for place, group in enumerate(waiting)}
    tasks += [_task(number, group, shapes[group.shape], shares, 0.0) for number, group in task_of.items()]
    shape_of = {}
    for number, (arrival_s, group) in enumerate(_coming(ahead, shapes, hours * 3600.0, seed), len(tasks) + 1):
        tasks.append(_task(number, dataclasses.replace(group, queue=-1), shapes[group.shape], shares, arrival_s))
        shape_of[number] = shapes[group.shape]
    down = tuple(place for place, is_online in enumerate(ahead.online) if not is_online)
    kinds = {name: _kind(shape) for name, shape in shapes.items()}
    kinds |= {f"{name}{_RUNS}": _running_kind(shape) for name, shape in shapes.items()}
    scenario = dataclasses.replace(
        ahead.grid,
        days=hours / 24.0,
        tasks=tuple(tasks),
        outages=(Outage(down, 0.0, hours * 3600.0 + 1.0, announced=True),) if down else (),
        kinds=kinds,
        warm_up_s=0.0,
        coming=None,
        queues=tuple(
            dataclasses.replace(queue, hidden_speed=1.0, failure_rate=0.0, failure_of_kind={}, efficiency_of_type={})
            for queue in ahead.grid.queues
        ),
    )
    return Beginning(check(scenario), task_of, shape_of)


def _fits_any(grid: Scenario, shape: Shape) -> bool:
    kind = _kind(shape)
    return any(fits(queue, kind) for queue in grid.queues)


def _kind(shape: Shape) -> JobKind:
    work = Fixed(REFERENCE_HS06 * shape.cores * shape.wall_s)
    return JobKind(
        shape.name, shape.processingtype, 1, shape.cores, work, Fixed(1.0), shape.memory_gb_core, shape.input_gb,
        Fixed(0.0), Fixed(_AT_ONCE_MBPS), shape.failure_rate, shape.analysis, between_queues=(0.0, 0.0),
        starts_up=False, wall_s=Lognormal(shape.wall_s, shape.spread),
    )  # fmt: skip


def _running_kind(shape: Shape) -> JobKind:
    """The kind of running jobs: the work factor of their task is the rest of their run in hours."""
    work = Fixed(REFERENCE_HS06 * shape.cores * 3600.0)
    return dataclasses.replace(
        _kind(shape), name=f"{shape.name}{_RUNS}", work_hs06s_event=work, wall_s=Fixed(3600.0), input_gb=0.0,
        failure_rate=0.0,
    )  # fmt: skip


def _task(number: int, group: WaitingGroup, shape: Shape, shares: Mapping[str, int], arrival_s: float) -> Task:
    values: dict[str, Any] = {name: getattr(group, name) for name in ("jobs", "user", "priority", "sources")}
    return Task(
        number=number, kind=shape.name, arrival_s=arrival_s, share=shares[shape.share], running_at=group.queue,
        whole=True, scouted=True, **values,
    )  # fmt: skip


def _running(ahead: WorkAhead, shapes: Mapping[str, Shape], shares: Mapping[str, int], seed: int) -> Iterator[Task]:
    number = 0
    for row in ahead.running:
        if row.shape not in shapes or not ahead.online[row.queue]:
            continue
        shape, power = shapes[row.shape], ahead.grid.queues[row.queue].corepower
        scale = power / REFERENCE_HS06
        random = stream(seed, f"{row.queue} {row.shape} {row.user}", "rest")
        left = rest_s(np.array(row.ages_s) * scale, shape.wall_s, shape.spread, random.random(len(row.ages_s)))
        for part in np.array_split(np.sort(left), min(MOST_GROUPS, len(left))):
            number += 1
            yield Task(
                number=number, kind=f"{row.shape}{_RUNS}", jobs=len(part), arrival_s=0.0, share=shares[shape.share],
                user=row.user, priority=1e6, sources=(), work_factor=max(float(part.mean()), 1.0) / 3600.0,
                running_at=row.queue, whole=True, scouted=True,
            )  # fmt: skip


def rest_s(ages_s: Floats, wall_s: float, spread: float, probability: Floats) -> Floats:
    """Remaining run times of jobs by their ages, at these quantiles of the remaining time; same shape.

    >>> rest_s(np.array([0.0, 3600.0]), 3600.0, 0.5, np.array([0.5, 0.5])).round()
    array([3600., 1444.])
    """
    from scipy.special import ndtr

    with np.errstate(divide="ignore"):
        elapsed = ndtr((np.log(ages_s) - math.log(wall_s)) / max(spread, 1e-6))
    whole = wall_s * np.exp(spread * normal_quantile(elapsed + (1.0 - elapsed) * probability))
    # a job that has run longer than nearly all of its shape is assumed to end soon
    return np.where(elapsed < 0.999, np.maximum(whole - ages_s, 1.0), 0.1 * ages_s + 1.0)


def _coming(
    ahead: WorkAhead, shapes: Mapping[str, Shape], end_s: float, seed: int
) -> Sequence[tuple[float, WaitingGroup]]:
    """Arrivals as a Poisson process at the rate of the window, each a copy of a task that arrived in it."""
    came = [group for group in ahead.came if group.shape in shapes]
    if not came:
        return []
    random = stream(seed, "came", "arrivals")
    count = int(random.poisson(len(came) * end_s / ahead.window_s))
    times = np.sort(random.random(count)) * end_s
    return [(float(time), came[place]) for time, place in zip(times, random.integers(0, len(came), count), strict=True)]
