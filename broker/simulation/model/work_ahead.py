"""The work of a grid at one instant as the beginning of a scenario: what runs, waits, and may come. Pure.

What runs goes on for a drawn rest of its run; what waits at a queue waits there, and what waits for a queue is brokered
in the first cycle; what may come is drawn from what came lately. Nothing else is known of the future, so outages last,
and no queue is faster than it publishes.
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
from broker.simulation.model.scenario import Outage, Scenario, Task, check, fits
from broker.simulation.model.streams import stream

#: Jobs that run at a queue are told apart by the rest of their run into at most so many groups of each shape.
MOST_GROUPS = 16
#: An upper bound of a stage-in, MB/s: its time is part of the run, so that it must not take any.
_AT_ONCE_MBPS = 1e6
_RUNS = " that run"


@dataclass(frozen=True)
class Shape:
    """Jobs that ask for the same.

    Attributes:
        name: of the shape.
        share: leaf share, by name.
        resource_type: of its tasks.
        cores: of a job; ``memory_gb_core`` that it holds a core.
        input_gb: of a job.
        wall_s: middle of its runs on a core of ``REFERENCE_HS06``; ``spread`` is the standard deviation of ln.
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
    """Jobs of a shape that run at a queue (its place), with the seconds that each has run."""

    queue: int
    shape: str
    ages_s: tuple[float, ...]
    user: int = 0


@dataclass(frozen=True)
class WaitingGroup:
    """Jobs of a task that wait.

    Attributes:
        task: its number.
        queue: at which they wait; -1 for those that wait for a queue.
        waited_s: since when they wait there.
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
        grid: with its queues, shares, sites and links; its tasks and outages do not count.
        shapes: by name.
        online: of each queue, whether it takes jobs.
        came: tasks that came within the last ``window_s``; their number and ``queue`` do not count.
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
        task_of: the waiting group that each task of the scenario stands for, by number.
        shape_of: the shape of each task that comes, by number.
    """

    scenario: Scenario
    task_of: Mapping[int, WaitingGroup]
    shape_of: Mapping[int, Shape]


def begin(ahead: WorkAhead, hours: float, seed: int) -> Beginning:
    """The scenario of a roll-out over so many hours; jobs that fit no queue are left out.

    Raises:
        SimulationError: the grid cannot be simulated.
    """
    shapes = {name: one for name, one in ahead.shapes.items() if _fits_any(ahead.grid, one)}
    shares = {name: place for place, (name, _) in enumerate(ahead.grid.shares)}
    shapes = {name: one for name, one in shapes.items() if one.share in shares}
    tasks: list[Task] = []
    tasks += _running(ahead, shapes, shares, seed)
    waiting = sorted(
        (one for one in ahead.waiting if one.shape in shapes), key=lambda one: (-one.priority, -one.waited_s)
    )
    first = len(tasks) + 1
    task_of = {first + place: one for place, one in enumerate(waiting)}
    tasks += [_task(number, one, shapes[one.shape], shares, 0.0) for number, one in task_of.items()]
    shape_of = {}
    for number, (arrival_s, one) in enumerate(_coming(ahead, shapes, hours * 3600.0, seed), len(tasks) + 1):
        tasks.append(_task(number, dataclasses.replace(one, queue=-1), shapes[one.shape], shares, arrival_s))
        shape_of[number] = shapes[one.shape]
    down = tuple(place for place, is_online in enumerate(ahead.online) if not is_online)
    kinds = {name: _kind(one) for name, one in shapes.items()}
    kinds |= {f"{name}{_RUNS}": _running_kind(one) for name, one in shapes.items()}
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
    """Jobs of which a rest is left: their task says how long, in hours."""
    work = Fixed(REFERENCE_HS06 * shape.cores * 3600.0)
    return dataclasses.replace(
        _kind(shape), name=f"{shape.name}{_RUNS}", work_hs06s_event=work, wall_s=Fixed(3600.0), input_gb=0.0,
        failure_rate=0.0,
    )  # fmt: skip


def _task(number: int, one: WaitingGroup, shape: Shape, shares: Mapping[str, int], arrival_s: float) -> Task:
    same: dict[str, Any] = {name: getattr(one, name) for name in ("jobs", "user", "priority", "sources")}
    return Task(
        number=number, kind=shape.name, arrival_s=arrival_s, share=shares[shape.share], running_at=one.queue,
        whole=True, scouted=True, **same,
    )  # fmt: skip


def _running(ahead: WorkAhead, shapes: Mapping[str, Shape], shares: Mapping[str, int], seed: int) -> Iterator[Task]:
    number = 0
    for one in ahead.running:
        if one.shape not in shapes or not ahead.online[one.queue]:
            continue
        shape, power = shapes[one.shape], ahead.grid.queues[one.queue].corepower
        scale = power / REFERENCE_HS06
        random = stream(seed, f"{one.queue} {one.shape} {one.user}", "rest")
        left = rest_s(np.array(one.ages_s) * scale, shape.wall_s, shape.spread, random.random(len(one.ages_s)))
        for group in np.array_split(np.sort(left), min(MOST_GROUPS, len(left))):
            number += 1
            yield Task(
                number=number, kind=f"{one.shape}{_RUNS}", jobs=len(group), arrival_s=0.0, share=shares[shape.share],
                user=one.user, priority=1e6, sources=(), work_factor=max(float(group.mean()), 1.0) / 3600.0,
                running_at=one.queue, whole=True, scouted=True,
            )  # fmt: skip


def rest_s(ages_s: Floats, wall_s: float, spread: float, probability: Floats) -> Floats:
    """How much longer jobs run that have run so long, with the probability that it is less; same shape.

    >>> rest_s(np.array([0.0, 3600.0]), 3600.0, 0.5, np.array([0.5, 0.5])).round()
    array([3600., 1444.])
    """
    from scipy.special import ndtr

    with np.errstate(divide="ignore"):
        gone = ndtr((np.log(ages_s) - math.log(wall_s)) / max(spread, 1e-6))
    whole = wall_s * np.exp(spread * normal_quantile(gone + (1.0 - gone) * probability))
    # a job that has run longer than nearly all of its shape: it ends soon, as far as is known
    return np.where(gone < 0.999, np.maximum(whole - ages_s, 1.0), 0.1 * ages_s + 1.0)


def _coming(
    ahead: WorkAhead, shapes: Mapping[str, Shape], end_s: float, seed: int
) -> Sequence[tuple[float, WaitingGroup]]:
    """Arrivals as a Poisson process at the rate of the window, each like one that came in it."""
    came = [one for one in ahead.came if one.shape in shapes]
    if not came:
        return []
    random = stream(seed, "came", "arrivals")
    count = int(random.poisson(len(came) * end_s / ahead.window_s))
    times = np.sort(random.random(count)) * end_s
    return [(float(at), came[place]) for at, place in zip(times, random.integers(0, len(came), count), strict=True)]
