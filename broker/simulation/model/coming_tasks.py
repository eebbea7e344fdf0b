"""The grid 2026 over weeks: the tasks of a day are drawn when it begins, so that none are held in memory before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from broker.simulation.model.generated_grid import DAY_S, SHARES, GridParameters, draw_outages, draw_tasks
from broker.simulation.model.grid_2026 import generate_2026, task_2026
from broker.simulation.model.job_kinds import KINDS
from broker.simulation.model.scenario import Queue, Scenario, Site, Task, fits
from broker.simulation.model.scenario_checks import check

#: Seconds within which transfers share one computation of rates: a grid of weeks has thousands of them at a time.
NETWORK_BATCH_S = 10.0
#: Difference of the seeds of the tasks of two consecutive days.
DAY_SEEDS = 10_000_019


@dataclass(frozen=True)
class DailyTasks:
    """The tasks of all days but the first.

    Attributes:
        parameters: load and mix of one day.
        days: number of days in all.
        first: number of the first task.
        shorter: factor by which a task has more jobs, each with less work.
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
        """Upper bound of their users: each user is below this number."""
        return self.parameters.users

    @property
    def shapes(self) -> tuple[tuple[int, str], ...]:
        """Each pair of a share and one of its kinds of jobs that fits somewhere."""
        return tuple(
            (share, kind)
            for share, (_, _, _, kinds) in enumerate(SHARES)
            for kind in kinds
            if any(fits(queue, KINDS[kind]) for queue in self.queues)
        )

    def __iter__(self) -> Iterator[Task]:
        """Iterate over the tasks, day by day."""
        number = self.first
        for day in range(1, self.days):
            weekday = (self.parameters.start_weekday + day) % 7
            today = dataclasses.replace(self.parameters, start_weekday=weekday)
            for drawn in draw_tasks(today, self.queues, self.sites, self.seed + DAY_SEEDS * day):
                numbered = dataclasses.replace(drawn, number=number, arrival_s=day * DAY_S + drawn.arrival_s)
                yield shortened(task_2026(numbered, self.sites, self.seed), self.shorter)
                number += 1


def shortened(task: Task, factor: float) -> Task:
    """The task with this many times more jobs, which do the same total work."""
    if factor == 1.0:
        return task
    jobs = max(1, round(task.jobs * factor))
    return dataclasses.replace(task, jobs=jobs, work_factor=task.work_factor * task.jobs / jobs)


def generate_long(parameters: GridParameters, seed: int) -> Scenario:
    """Generate the grid 2026 for whole days; only the tasks of the first day exist at the beginning.

    With ``jobs``, jobs become shorter or longer, so that about this many of them bring the same load.

    Raises:
        SimulationError: no work fits the grid of the parameters.
    """
    days = max(1, round(parameters.days))
    one_day = dataclasses.replace(parameters, days=1.0, jobs=None, warm_up_s=0.0)
    first_day = generate_2026(one_day, seed)
    usual = sum(task.jobs for task in draw_tasks(one_day, first_day.queues, first_day.sites, seed)) * days
    shorter = 1.0 if parameters.jobs is None else parameters.jobs / usual
    first = 1 + max((task.number for task in first_day.tasks), default=0)
    tasks = tuple(task if task.running_at >= 0 else shortened(task, shorter) for task in first_day.tasks)
    coming = DailyTasks(one_day, days, first_day.queues, first_day.sites, seed, first, shorter)
    whole = dataclasses.replace(parameters, days=float(days))
    return check(
        dataclasses.replace(
            first_day,
            name=f"2026-{parameters.queues}q-{days}d",
            days=float(days),
            tasks=tasks,
            outages=draw_outages(whole, first_day.queues, seed),
            coming=coming,
            network_batch_s=NETWORK_BATCH_S,
            warm_up_s=parameters.warm_up_s,
        )
    )
