"""The grid 2026 over weeks: the tasks of a day are drawn when it begins, so that none is held before it comes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from broker.simulation.model.generated_grid import DAY_S, SHARES, GridParameters, draw_outages, draw_tasks
from broker.simulation.model.grid_2026 import generate_2026, task_2026
from broker.simulation.model.job_kinds import KINDS
from broker.simulation.model.scenario import Queue, Scenario, Site, Task, check, fits

#: Transfers get their rates together within so many seconds: a grid of weeks has thousands of them at a time.
NETWORK_BATCH_S = 10.0
#: The tasks of each day have a seed of their own, so far from that of the day before.
DAY_SEEDS = 10_000_019


@dataclass(frozen=True)
class DailyTasks:
    """The tasks of all days but the first.

    Attributes:
        parameters: of one day, its load and mix; ``days`` that there are in all.
        first: number of the first task.
        shorter: jobs of a task are so many times more, and each has so many times less work.
    """

    parameters: GridParameters
    days: int
    queues: tuple[Queue, ...]
    sites: tuple[Site, ...]
    seed: int
    first: int
    shorter: float = 1.0

    @property
    def users(self) -> int:
        """Their users are below this number."""
        return self.parameters.users

    @property
    def shapes(self) -> tuple[tuple[int, str], ...]:
        """Each share with each kind of job that fits somewhere."""
        return tuple(
            (share, kind)
            for share, (_, _, _, kinds) in enumerate(SHARES)
            for kind in kinds
            if any(fits(queue, KINDS[kind]) for queue in self.queues)
        )

    def __iter__(self) -> Iterator[Task]:
        """The tasks, day by day."""
        number = self.first
        for day in range(1, self.days):
            weekday = (self.parameters.start_weekday + day) % 7
            today = dataclasses.replace(self.parameters, start_weekday=weekday)
            for drawn in draw_tasks(today, self.queues, self.sites, self.seed + DAY_SEEDS * day):
                made = dataclasses.replace(drawn, number=number, arrival_s=day * DAY_S + drawn.arrival_s)
                yield shortened(task_2026(made, self.sites, self.seed), self.shorter)
                number += 1


def shortened(task: Task, factor: float) -> Task:
    """The task with so many times more jobs, which do the same work together."""
    if factor == 1.0:
        return task
    jobs = max(1, round(task.jobs * factor))
    return dataclasses.replace(task, jobs=jobs, work_factor=task.work_factor * task.jobs / jobs)


def generate_long(parameters: GridParameters, seed: int) -> Scenario:
    """The grid 2026 for whole days, of which only the first is there when it begins.

    With ``jobs`` the jobs are made shorter or longer, so that about so many bring the same load.

    Raises:
        SimulationError: the parameters make no grid that work fits in.
    """
    days = max(1, round(parameters.days))
    one = dataclasses.replace(parameters, days=1.0, jobs=None, warm_up_s=0.0)
    begun = generate_2026(one, seed)
    usual = sum(task.jobs for task in draw_tasks(one, begun.queues, begun.sites, seed)) * days
    shorter = 1.0 if parameters.jobs is None else parameters.jobs / usual
    first = 1 + max((task.number for task in begun.tasks), default=0)
    tasks = tuple(task if task.running_at >= 0 else shortened(task, shorter) for task in begun.tasks)
    coming = DailyTasks(one, days, begun.queues, begun.sites, seed, first, shorter)
    whole = dataclasses.replace(parameters, days=float(days))
    return check(
        dataclasses.replace(
            begun,
            name=f"2026-{parameters.queues}q-{days}d",
            days=float(days),
            tasks=tasks,
            outages=draw_outages(whole, begun.queues, seed),
            coming=coming,
            network_batch_s=NETWORK_BATCH_S,
            warm_up_s=parameters.warm_up_s,
        )
    )
